# frozen_string_literal: true

# Takes an order and leaves the services to a job.
class OrdersController < ApplicationController
  def create
    redirect_to @waits.for("database: order") { Order.create!(product_id: params[:product_id]) }
  end

  def show
    @order = @waits.for("database: order") { Order.includes(:product).find(params[:id]) }
    @in_stock = @order.in_stock
    @tomorrow = @order.tomorrow
  end
end
