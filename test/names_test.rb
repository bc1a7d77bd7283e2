# frozen_string_literal: true

require "minitest/autorun"
require "neverblock"
require_relative "support/subprocess"

# Programs that look around ask every module of the process for its name.
class NamesTest < Minitest::Test
  PROGRAM = <<~'RUBY'
    require "neverblock"
    require "neverblock/server"
    require "neverblock/drivers/sequel/accounts"
    own = Module.instance_method(:name)
    ours = ObjectSpace.each_object(Module).select { |one| own.bind_call(one)&.start_with?("NB") }
    print ours.size > 100, ours.reject { |one| one.method(:name).owner == Module }
  RUBY

  def test_each_module_tells_its_name
    result = Subprocess.ruby(PROGRAM)
    assert_equal "true[]", result.out, result.err
  end
end
