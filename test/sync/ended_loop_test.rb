# frozen_string_literal: true

require_relative "support"

# When a loop ends early, each of its fibers is cancelled once: what an `ensure` waits for, such as
# a ROLLBACK, comes to its end. Groups and the like are cancelled, too, and cancel their tasks.
class EndedLoopTest < Minitest::Test
  WAYS = {
    "the block" => ->(job) { job.call },
    "a fiber" => ->(job) { Fiber.schedule(&job) && sleep },
    "a task" => ->(job) { NB.async(&job).wait },
    "a group" => ->(job) { NB.group { |group| group.async(&job) } },
    "gather" => ->(job) { NB.gather(job) },
    "map" => ->(job) { NB.map([1], concurrency: 1) { job.call } },
    "first" => ->(job) { NB.first(job) },
    "settle" => ->(job) { NB.settle(job) },
    "as_completed" => ->(job) { NB.as_completed(job).to_a },
    "a pool of fibers" => lambda { |job|
      pool = NB::FiberPool.new(2)
      pool.spawn(&job)
      pool.wait
    },
    "a timeout" => ->(job) { NB.timeout(60) { job.call } },
    "a map in a group" => lambda { |job|
      NB.group { |group| group.async { NB.map([1], concurrency: 1) { job.call } } }
    }
  }.freeze

  # Each gets what runs, and calls it in a loop that then ends.
  ENDS = {
    "an error" => ->(work) { NB.run { NB.async(&work) && sleep(0) && raise(KeyError) } },
    "a throw" => ->(work) { catch(:end) { NB.run { NB.async(&work) && throw(:end) } } },
    "a kill of its thread" => lambda { |work|
      NB.run { Fiber.schedule { sleep(0) && Thread.current.kill } && work.call }
    },
    "a kill from outside" => lambda { |work|
      thread = Thread.current
      NB.run do
        loop = Fiber.scheduler
        Thread.new do
          Thread.pass until loop.waits.any? { |wait| wait[:kind] == :sleep && !wait[:timeout] }
          thread.kill
        end
        work.call
      end
    }
  }.freeze

  ENDS.each do |end_name, ended|
    WAYS.each do |name, way|
      define_method("test_#{end_name}_lets_the_ensure_of_#{name}_end".tr(" ", "_")) do
        waited = Thread::Queue.new
        job = lambda do
          sleep
        ensure
          2.times { sleep 0.002 }
          waited << true
        end
        thread = Thread.new { ended.call(-> { way.call(job) }) }
        thread.report_on_exception = false
        assert thread.join(60), "the thread goes on"
      rescue KeyError
        nil # which was to end it
      ensure
        assert_equal 1, waited.size
      end
    end
  end
end
