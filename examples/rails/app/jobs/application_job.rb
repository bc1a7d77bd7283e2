# frozen_string_literal: true

# All jobs of the shop.
class ApplicationJob < ActiveJob::Base
end
