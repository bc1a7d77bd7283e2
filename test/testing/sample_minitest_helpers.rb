# frozen_string_literal: true

require "minitest/autorun"
require "neverblock/minitest"

# What several classes have in common.
module Helpers
  include NB::Minitest
end

class HelpedTest < Minitest::Test
  include Helpers

  def test_has_a_loop = assert_predicate(NB, :running?)
end
