# frozen_string_literal: true

require "minitest/autorun"
require_relative "../support/subprocess"

# The soak of the server, short: `rake soak:server[600]` is the long one.
class ServerSoakTest < Minitest::Test
  SECONDS = 8

  def test_soak
    program = File.expand_path("soak/run.rb", __dir__)
    command = [RbConfig.ruby, "-I#{Subprocess::LIB}", program, SECONDS.to_s]
    result = Subprocess.run({}, command, 150)
    puts result.out.lines.last # the activities, for `bin/test`
    assert_predicate result.status, :success?, "#{result.out}\n#{result.err}"
  end
end
