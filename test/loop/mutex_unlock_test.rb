# frozen_string_literal: true

require "minitest/autorun"
require_relative "../support/subprocess"

# What happens between the hook `unblock` and the end of Mutex#unlock: Ruby looks at interrupts
# there. Ruby 3.1 still has the mutex in its list of those that the thread has locked.
class MutexUnlockTest < Minitest::Test
  # Two fibers and a mutex; the block of `after` runs where Ruby looks at interrupts.
  CONTENDED = <<~RUBY
    mutex, other = Mutex.new, Mutex.new
    Thread.new do
      NB.run do
        Fiber.scheduler.singleton_class.prepend(Module.new do
          define_method(:unblock) { |*arguments| super(*arguments).tap { after(mutex) } }
        end)
        NB.async do
          other.lock
          mutex.lock
          sleep 0.01
          begin
            mutex.unlock
          rescue Interrupt
            puts "interrupted"
          end
          puts "other locked: \#{other.locked?}"
          other.unlock if other.owned?
        end
        NB.async { mutex.synchronize { puts "locked again" } }
      end
    end.join
    puts "locked: \#{mutex.locked?}"
  RUBY

  def test_an_exception_that_comes_there
    out = run_contended("def after(_) = raise(Interrupt)\n")
    assert_equal "interrupted\nother locked: true\nlocked again\nlocked: false\n", out
  end

  # Without the repair, the end of that thread unlocks a mutex that the fiber has.
  def test_a_thread_that_locks_it_there_and_ends
    out = run_contended(<<~RUBY)
      def after(mutex)
        thread = Thread.new { mutex.unlock if mutex.try_lock }
        nil while thread.alive? # Thread.pass would let the other fiber run
      end
    RUBY
    assert_equal "other locked: true\nlocked again\nlocked: false\n", out
  end

  private

  def run_contended(after)
    result = Subprocess.ruby(after + CONTENDED)
    assert_empty result.err
    assert_predicate result.status, :success?
    result.out
  end
end
