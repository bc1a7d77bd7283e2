# frozen_string_literal: true

require "rails/transfers"

# Transfers on PostgreSQL.
class RailsTransfersPostgresqlTest < Minitest::Test
  include RailsTransfers

  RailsApp.load("neverblock_postgresql")

  def test_no_money_is_made_or_lost = check(Databases.postgresql)
end
