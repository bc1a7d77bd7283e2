# frozen_string_literal: true

module NB
  module Drivers
    module SolidQueue
      # Prepended to SolidQueue::Processes::Runnable. A child that is forked beside other threads,
      # such as the one for heartbeats, may hang before it reaches any code of its own: a thread
      # that is not there any more has left a mutex locked in C (in Ruby 3.4 its own,
      # ruby/ruby#12981). The supervisor replaces processes that end, but such a child does not end.
      module ForkCheck
        # Seconds in which a child must report that it has begun.
        SECONDS = 10
        private_constant :SECONDS

        private

        # Works like Kernel#fork, but a child that does not begin is killed, so the supervisor
        # replaces it. It has claimed nothing yet.
        def fork
          return super unless SolidQueue.on?

          pid, begun = ForkCheck.watch { |begin_it| super() { begin_it.call && yield } }
          ForkCheck.kill(pid) unless begun
          pid
        end

        # Prepended to Puma's `plugin :solid_queue`, which forks the supervisor beside Puma's
        # threads. It replaces nothing: it ends Puma when the supervisor has ended.
        module Retry
          # How many children may hang one after the other.
          TIMES = 3
          private_constant :TIMES

          private

          # Works like Kernel#fork, but a child that does not begin is killed and replaced.
          def fork
            return super unless SolidQueue.on?

            TIMES.downto(1) do |left|
              pid, begun = ForkCheck.watch { |begin_it| super() { begin_it.call && yield } }
              ForkCheck.kill(pid) unless begun
              return pid if begun || left == 1

              Process.wait(pid)
            end
          end
        end

        class << self
          # @yield forks
          # @yieldparam begin_it [Proc] what the child calls first
          # @yieldreturn [Integer]
          # @return [Array(Integer, Boolean)] the child's pid, and whether it has begun in time
          # @api private
          def watch
            reader, writer = IO.pipe
            pid = yield(proc { report(reader, writer) })
            writer.close
            [pid, !reader.wait_readable(SECONDS).nil?]
          ensure
            [reader, writer].compact.each(&:close)
          end

          # @param pid [Integer] of a child that has not been waited for
          # @api private
          def kill(pid)
            SolidQueue.notice("process #{pid} did not begin within #{SECONDS} s (see " \
                              "ruby/ruby#12981): killing it, so that it is replaced")
            Process.kill(:KILL, pid)
          end

          # Prepends {Retry} if Puma has loaded the plugin.
          # @return [void]
          # @api private
          def cure_puma
            loaded = $LOADED_FEATURES.any? { |file| file.end_with?("puma/plugin/solid_queue.rb") }
            ::Puma::Plugins.find("solid_queue").prepend(Retry) if loaded
          end

          private

          def report(reader, writer)
            reader.close
            writer.syswrite(".")
            writer.close
            true
          end
        end
      end
    end
  end
end
