# frozen_string_literal: true

# The shop window, and a product. One line after the other, as everybody writes it.
class ProductsController < ApplicationController
  def index
    @products = @waits.for("database: products") { Product.favourites.limit(8).to_a }
    @stars = @waits.for("database: stars") { Product.stars }
    ask_services
  end

  def show
    @product = @waits.for("database: product") { Product.find(params[:id]) }
    @reviews = @waits.for("database: reviews") { @product.reviews.order(:id).to_a }
    ask_services
  end

  private

  def ask_services
    @in_stock = @waits.for("warehouse") { Service.warehouse }
    @tomorrow = @waits.for("parcel service") { Service.parcels }
  end
end
