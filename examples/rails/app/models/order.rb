# frozen_string_literal: true

# One product for one customer. Its job finds out when it arrives.
class Order < ApplicationRecord
  belongs_to :product

  scope :open, -> { where(tomorrow: nil) }

  after_create_commit { DeliveryJob.perform_later(self) }

  def open? = tomorrow.nil?
end
