# frozen_string_literal: true

require "minitest/autorun"
require "neverblock/minitest"

class EarlierTest < Minitest::Test
  def test_has_a_loop_too = assert_predicate(NB, :running?)
end

# All tests of a program.
class Minitest::Test # rubocop:disable Style/ClassAndModuleChildren
  include NB::Minitest
end

class InheritingTest < Minitest::Test
  def test_has_a_loop = assert_predicate(NB, :running?)
  def test_leaves_a_task_behind = NB.async { sleep }
end

class IncludingTest < Minitest::Test
  include NB::Minitest
  virtual_time!

  def test_takes_no_time = assert_predicate(NB, :running?) && sleep(3600)
end
