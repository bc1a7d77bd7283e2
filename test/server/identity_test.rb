# frozen_string_literal: true

require "minitest/autorun"
require_relative "../support/subprocess"

# No byte of one client comes to another, short: `rake soak:identity[600]` is the long one.
class ServerIdentityTest < Minitest::Test
  SECONDS = 10
  CLIENTS = 50

  def test_identity
    program = File.expand_path("identity/run.rb", __dir__)
    seed = Random.new_seed % 1_000_000
    arguments = [SECONDS, seed, CLIENTS, "HUP"].map(&:to_s)
    result = Subprocess.run({}, [RbConfig.ruby, "-I#{Subprocess::LIB}", program, *arguments], 150)
    assert_predicate result.status, :success?, "#{result.out}\n#{result.err}"
  end
end
