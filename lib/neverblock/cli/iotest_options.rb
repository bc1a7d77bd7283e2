# frozen_string_literal: true

module NB
  module CLI
    # The options of `nb iotest`, checked. The letters are those of the AsyncIoTest of 2006.
    #
    # @example
    #   options = NB::CLI::IotestOptions.parse(%w[-c localhost -n -l 500M -k 256k])
    #   [options.mode, options.length, options.chunk]  # => [:network, 524288000, 256000]
    IotestOptions = Struct.new(:role, :host, :port, :mode, :file, :length, :transmit, :chunk,
                               :buffer, :operations, :out, :once, :json, :cold) do
      # @return [Boolean] whether bytes travel over the network
      # @scheduling never waits
      def network? = mode != :disk

      # @return [Boolean] whether bytes are read from a file, or written to one
      # @scheduling never waits
      def disk? = mode != :network
    end

    class IotestOptions
      # The factor of each suffix: small letters count in thousands.
      SUFFIXES = { "k" => 10**3, "m" => 10**6, "g" => 10**9,
                   "K" => 2**10, "M" => 2**20, "G" => 2**30 }.freeze
      # The file that the server writes, in the current folder.
      TARGET = "asynciotest.out"
      # The limits of -b and -k: what setsockopt(2) and one read accept.
      LARGEST = (2**31) - 1

      class << self
        # @param option [String] for the message
        # @param text [String] "500", "64k", "1G"
        # @return [Integer]
        # @raise [UsageError]
        # @scheduling never waits
        def bytes(option, text)
          digits, suffix = text.match(/\A(\d+)([a-zA-Z]?)\z/)&.captures
          factor = suffix.to_s.empty? ? 1 : SUFFIXES[suffix]
          return digits.to_i * factor if digits && factor && digits.to_i.positive?

          raise UsageError, "#{option}: not a length: #{text.inspect} (500, 64k = 64000, " \
                            "64K = 65536, m, M, g, G)"
        end

        # @param argv [Array<String>]
        # @return [IotestOptions]
        # @raise [UsageError] for options that do not go together
        # @scheduling never waits
        def parse(argv)
          options = new(nil, nil, 12_345, :both, nil, nil, false, 65_536, nil, 2, TARGET, false)
          modes = []
          rest = read(argv, options, modes)
          raise UsageError, "takes no argument, only suite or findings; got: " \
                            "#{rest.first.inspect}" if rest.any?
          raise UsageError, "-n and -d exclude each other" if modes.uniq.size > 1

          options.mode = modes.first || :both
          check(options)
          options.role ||= :client
          options
        end

        private

        def read(argv, options, modes)
          CLI.parse(argv) do |on|
            on.on("-s") { options.role = :server }
            on.on("-c HOST") { |host| options.host = host }
            on.on("-n") { modes << :network }
            on.on("-d") { modes << :disk }
            on.on("-t") { options.transmit = true }
            on.on("-f FILE") { |path| options.file = path }
            on.on("-1", "--one-off") { options.once = true }
            on.on("-J", "--json") { options.json = true }
            on.on("--out FILE") { |path| options.out = path }
            on.on("--cold") { options.cold = true }
            numbers(on, options)
          end
        end

        def numbers(on, options)
          on.on("-l LENGTH") { |text| options.length = bytes("-l", text) }
          on.on("-k CHUNK") { |text| options.chunk = bytes("-k", text) }
          on.on("-b SIZE") { |text| options.buffer = bytes("-b", text) }
          on.on("-o N", Integer) { |count| options.operations = count }
          on.on("-p PORT", Integer) { |port| options.port = port }
        end

        def check(options)
          problem = common(options) || (options.role == :server ? server(options) : client(options))
          raise UsageError, problem if problem
        end

        def common(options)
          return "needs either -s (server) or -c HOST (client)" unless
            options.role.nil? ^ options.host.to_s.empty?
          return "-o: must be from 1 to 1024 chunks, got: #{options.operations}" unless
            (1..1024).cover?(options.operations)

          [["-b", options.buffer], ["-k", options.chunk]].each do |letter, bytes|
            return "#{letter}: must be at most #{LARGEST} bytes, got: #{bytes}" if
              bytes.to_i > LARGEST
          end
          "-p: must be from 0 to 65535, got: #{options.port}" unless
            (0..65_535).cover?(options.port)
        end

        def server(options)
          return "-t is for the client" if options.transmit

          "-s -d needs -l LENGTH: how much to write" if options.mode == :disk && !options.length
        end

        def client(options)
          return "-t sends over the network, -d does not" if options.transmit && !options.network?
          return "-n sends random bytes and takes no -f" if
            options.mode == :network && options.file
          return "-c -n needs -l LENGTH: how much to send" if
            options.mode == :network && !options.length
          return if options.mode == :network

          return "needs -f FILE: what to read" unless options.file

          CLI.no_file(options.file) unless File.file?(options.file)
        end
      end
    end
  end
end
