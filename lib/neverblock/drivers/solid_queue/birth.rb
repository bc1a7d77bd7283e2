# frozen_string_literal: true

module NB
  module Drivers
    module SolidQueue
      # Prepended to SolidQueue::Processes::Runnable. A child that is forked beside other threads,
      # such as the one for heartbeats, may hang before it reaches any code of its own: a thread
      # that is not there any more has left a mutex locked in C (in Ruby 3.4 its own,
      # ruby/ruby#12981). The supervisor replaces processes that end, but such a child does not end.
      module Birth
        # Seconds in which a child must report that it has begun.
        SECONDS = 10
        private_constant :SECONDS

        private

        # Works like Kernel#fork, but a child that does not begin is killed, so the supervisor
        # replaces it. It has claimed nothing yet.
        def fork
          return super unless SolidQueue.on?

          reader, writer = IO.pipe
          pid = super do
            reader.close
            writer.syswrite(".")
            writer.close
            yield
          end
          Birth.kill(pid) unless reader.wait_readable(SECONDS)
          pid
        ensure
          [reader, writer].compact.each(&:close)
        end

        class << self
          # @param pid [Integer] of a child that has not been waited for
          # @api private
          def kill(pid)
            SolidQueue.notice("process #{pid} did not begin within #{SECONDS} s (see " \
                              "ruby/ruby#12981): killing it, so that it is replaced")
            Process.kill(:KILL, pid)
          end
        end
      end
    end
  end
end
