# frozen_string_literal: true

require "rails/transfers"

# Transfers on MariaDB by mysql2.
class RailsTransfersMysql2Test < Minitest::Test
  include RailsTransfers

  RailsApp.load("neverblock_mysql2")

  def test_no_money_is_made_or_lost = check(Databases.mariadb)
end
