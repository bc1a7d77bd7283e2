# frozen_string_literal: true

# What a customer thinks of a product: one to five stars.
class Review < ApplicationRecord
  belongs_to :product
end
