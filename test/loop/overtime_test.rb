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

  # Its struct lies on a stack that another fiber may have by then.
  def test_a_block_that_ends_while_the_masks_are_asked_gets_no_exception
    result = Subprocess.ruby(<<~'RUBY')
      require "timeout"
      class Late < StandardError
        def self.new(*) = puts("made") || super
      end
      over = nil
      ended = Thread::Queue.new
      asked = Module.new do
        define_method(:masking_beside?) do |fiber|
          over = true
          ended.pop
          super(fiber)
        end
      end
      NB.run do
        Timeout.timeout(1) { sleep 0.001 }
        NB::Repairs.singleton_class.prepend(asked)
        Fiber.schedule { Timeout.timeout(0.01, Late) { nil until over } }
        ended << 1
        Timeout.timeout(0.2) { sleep } rescue puts("expired")
      end
    RUBY
    assert_equal "expired\n", result.out, result.err
  end
end
