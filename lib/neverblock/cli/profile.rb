# frozen_string_literal: true

require_relative "profile_file"
require_relative "run"

module NB
  module CLI
    # `nb profile`: `nb run`, and where the time went.
    module Profile
      # One line for the list of commands.
      SUMMARY = "run a script as nb run does, and print where the time of its fibers went"
      # What `nb help profile` prints.
      USAGE = <<~TEXT
        usage: nb profile [-o FILE] [options of nb run] SCRIPT [arguments]
               nb profile [-o FILE] [options of nb run] -e CODE [arguments]

        Runs the script in the loop as `nb run` does. At the end it prints to stderr what the loop's
        thread did, and what its fibers waited for: which peer, pool or lock, at which line, how long.

          -o, --out FILE   where the flame graph for https://www.speedscope.app goes
                           (profile-PID.speedscope.json)

        `nb serve --profile` does the same for a server. On Ruby 3.1, waits for the GVL and waits outside
        the loop are not seen.
      TEXT

      class << self
        # @param argv [Array<String>]
        # @return [Integer] exit status; what the script raises passes through
        # @raise [UsageError, Failure]
        # @scheduling always waits
        def run(argv)
          words = argv.dup
          path = read_out(words) || "profile-#{Process.pid}.speedscope.json"
          return CLI.start(%w[help profile]) if %w[-h --help].include?(words.first)

          check(path)
          CLI.load_loop
          ProfileFile.new(path).record { Run.run(words) }
        rescue NB::Profile::BusyError => error
          raise Failure, error.message
        end

        private

        # Binary, because a regular expression refuses words that are invalid in their encoding.
        def read_out(words)
          case words.first&.b
          when "-o", "--out"
            words.shift
            words.shift or raise UsageError, "-o needs a value"
          when /\A--out=/, /\A-o(?=.)/m then words.shift.byteslice(Regexp.last_match.end(0)..)
          end
        end

        # Before the script runs, as it may take long.
        def check(path)
          raise UsageError, "-o: must name a file, got: #{path.inspect}" if
            path.empty? || path.end_with?("/") || File.directory?(path)

          CLI.folder("-o", File.dirname(path))
          raise Failure, "-o: cannot write #{path}: name another file" if
            File.exist?(path) && !File.writable?(path)
        end
      end
    end
  end
end
