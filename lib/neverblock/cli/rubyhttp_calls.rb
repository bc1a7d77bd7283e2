# frozen_string_literal: true

require "open3"
require "rbconfig"
require "tempfile"

module NB
  module CLI
    # Counts the system calls of a download, in a Ruby of its own to which strace(1) attaches first.
    # (A forked child would not do: Typhoeus refuses a libcurl that its parent has initialized.)
    module RubyhttpCalls
      LIB = File.expand_path("../..", __dir__)
      private_constant :LIB

      class << self
        # @param program [String] what the other Ruby runs: prints a line, waits for the end of its
        #   input, downloads
        # @param words [Array<String>] its arguments, the client first
        # @return [Integer] calls, including the few that end the process
        # @raise [Failure] if strace is not installed or not permitted, or the download fails
        # @scheduling may wait
        def count(program, *words)
          Open3.popen3(*ruby, "-e", program, *words) do |*pipes, process|
            start, ready, errors = pipes
            raise Failure, "--calls: #{words.first}: #{errors.gets.to_s.strip}" unless ready.gets

            watched(process.pid) { start.close }
          end
        end

        private

        def ruby
          [RbConfig.ruby, "-W0", *[*$LOAD_PATH, LIB].map { |path| "-I#{path}" }]
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
            total = table.read[/(\d+) total/, 1]
            Integer(total || raise(Failure, "--calls: strace printed no total"))
          end
        rescue Errno::ENOENT
          raise Failure, "--calls: needs the program strace, which is not installed"
        end
      end
    end
  end
end
