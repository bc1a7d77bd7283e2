# frozen_string_literal: true

require "tempfile"

module NB
  module CLI
    # Counts the system calls of a block, in a forked child to which strace(1) attaches first.
    module RubyhttpCalls
      class << self
        # @yield runs twice in the child; the second time is counted
        # @return [Integer] calls, including the few that end the child
        # @raise [Failure] if strace is not installed or not permitted
        # @scheduling may wait
        def count(&block)
          told, ready = IO.pipe
          starts, start = IO.pipe
          child = fork do
            [told, start].each(&:close)
            act(ready, starts, &block)
          end
          [ready, starts].each(&:close)
          raise Failure, "--calls: the download failed" unless told.gets

          watched(child) { start.close }
        ensure
          [told, ready, starts, start].compact.each(&:close)
          Process.wait(child) if child
        end

        private

        def act(ready, starts)
          $stderr.reopen(File::NULL)
          yield
          ready.puts
          starts.read
          yield
        ensure
          exit!(0)
        end

        # @yield when strace has attached
        def watched(child)
          Tempfile.create("nb-calls") do |table|
            strace = ["strace", "-f", "-c", "-U", "calls,name", "-o", table.path, "-p", child.to_s]
            IO.popen(strace, err: %i[child out]) do |messages|
              first = messages.gets.to_s
              raise Failure, "--calls: #{first.strip}" unless first.include?("attached")

              yield
              messages.read
            end
            Integer(table.read[/(\d+) total/, 1] || raise(Failure, "--calls: strace tells nothing"))
          end
        rescue Errno::ENOENT
          raise Failure, "--calls: needs the program strace, which is not installed"
        end
      end
    end
  end
end
