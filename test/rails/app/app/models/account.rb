# frozen_string_literal: true

class Account < ApplicationRecord
  attribute :note, :jsonb if connection_db_config.adapter == "postgresql"
end
