# frozen_string_literal: true

require "rails/transfers"

# Transfers on MariaDB by trilogy.
class RailsTransfersTrilogyTest < Minitest::Test
  include RailsTransfers

  RailsApp.load("neverblock_trilogy")

  def test_no_money_is_made_or_lost = check(Databases.mariadb)
end
