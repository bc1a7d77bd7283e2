# frozen_string_literal: true

require "minitest/autorun"
require "neverblock"
require "neverblock/server"
require_relative "../interrupted/interrupted_matrix"

# A fifth of the cells; `rake matrix:interrupted` runs all of them.
class InterruptedMatrixTest < Minitest::Test
  def test_what_the_application_is_told_is_what_the_database_holds
    %i[postgresql mariadb redis].each { |name| Databases.there?(name) || missing(name.to_s) }

    cells = InterruptedMatrix.new(world: :fibers, short: true).run
    assert_empty cells.select(&:loses?).map(&:report)
    assert_operator cells.count { |cell| cell.verdict == :missed }, :<, cells.size / 5
  end
end
