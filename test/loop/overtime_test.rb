# frozen_string_literal: true

require "minitest/autorun"
require "neverblock"
require_relative "../support/subprocess"

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

  # In a Ruby that has had no timeout yet. The timer lies on the stack of the call that failed.
  def test_a_thread_that_cannot_be_made_leaves_no_timer
    result = Subprocess.ruby(<<~'RUBY')
      require "timeout"
      NB.run do
        class << Thread
          alias original_new new
          def new(*) = raise(ThreadError, "can't create Thread")
        end
        begin
          Timeout.timeout(0.02) { p :inside }
        rescue ThreadError => error
          puts error.message
        end
        Thread.singleton_class.alias_method(:new, :original_new)
        p NB.stats[:timers]
        sleep 0.05
        begin
          Timeout.timeout(0.02) { loop {} }
        rescue Timeout::Error => error
          puts error.message
        end
      end
    RUBY
    assert_equal ["can't create Thread", "0", "execution expired"],
      result.out.lines(chomp: true), result.err
  end
end
