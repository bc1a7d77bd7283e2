# frozen_string_literal: true

# All tables of the shop.
class ApplicationRecord < ActiveRecord::Base
  primary_abstract_class
end
