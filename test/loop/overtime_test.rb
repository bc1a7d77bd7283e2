# frozen_string_literal: true

require "minitest/autorun"
require "neverblock"

# The thread that ends blocks which compute beyond their timeout.
class OvertimeTest < Minitest::Test
  # Cannot be made with a message alone.
  class Awkward < StandardError
    def initialize(first, second) = super("#{first} #{second}")
  end

  def test_goes_on_when_an_exception_cannot_be_made
    NB.run do
      assert_raises(ArgumentError) { Timeout.timeout(0.02, Awkward) { loop {} } }
      assert_raises(Timeout::Error) { Timeout.timeout(0.02) { loop {} } }
    end
  end
end
