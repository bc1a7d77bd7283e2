# frozen_string_literal: true

# Asks the warehouse and the parcel service about an order, while its customer reads on.
class DeliveryJob < ApplicationJob
  def perform(order)
    order.update!(in_stock: Service.warehouse, tomorrow: Service.parcels)
  end
end
