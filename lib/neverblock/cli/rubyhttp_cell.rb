# frozen_string_literal: true

require "objspace"
require_relative "../../neverblock"
require_relative "rubyhttp_calls"
require_relative "rubyhttp_clients"

module NB
  module CLI
    # One client at one site: warms up, downloads several times, and reports the sample with the
    # median CPU time.
    class RubyhttpCell
      # The columns of the study of 2008.
      COLUMNS = ["Site", "Impl", "KBytes Transferred", "KBytes/second", "Chunk count",
                 "Mean chunk size", "Min chunk size", "Max chunk size", "User Time", "System Time",
                 "Total CPU Time", "Clock time", "% CPU usage"].freeze
      # The worlds in which a download runs: name => a callable that runs the block.
      WORLDS = {
        "blocking" => ->(work) { work.call },
        "thread" => ->(work) { Thread.new(&work).value },
        "nb" => ->(work) { NB.run(&work) },
        "async" => ->(work) { Sync { work.call } }
      }.freeze
      # For {RubyhttpCalls}: a download that is not counted, then the one that is.
      COUNTED = <<~'RUBY'
        require "neverblock/cli"
        require "neverblock/cli/rubyhttp_cell"
        NB::CLI.load_loop
        client, world, port = ARGV
        reason = NB::CLI::RubyhttpClients.missing(client) || NB::CLI::RubyhttpCell.missing(world)
        abort(reason) if reason
        cell = NB::CLI::RubyhttpCell.new(client, world: world)
        cell.warm_up(Integer(port))
        $stdout.puts
        $stdout.flush
        $stdin.read
        cell.warm_up(Integer(port))
        exit!(0)
      RUBY
      # Up to this many bytes, a download fits into memory without a garbage collection.
      COUNTED_BYTES = 200_000_000
      private_constant :COUNTED, :COUNTED_BYTES

      # @param world [String] of {WORLDS}
      # @return [String, nil] why it is not available here
      def self.missing(world)
        return unless world == "async"
        return "gem async asks for IO#timeout, which Ruby has from 3.2 on" if RUBY_VERSION < "3.2"

        require "async"
        nil
      rescue LoadError
        "gem async is not installed"
      end

      # @param client [String] of {RubyhttpClients::NAMES}
      # @param world [String] of {WORLDS}
      # @param repeat [Integer] downloads, 1 or more
      def initialize(client, world: "blocking", repeat: 1)
        @client = client
        @world = world
        @repeat = repeat
      end

      # @return [String] its name in the rows
      def name = @world == "blocking" ? @client : "#{@client} [#{@world}]"

      # Loads what the client needs, so that no sample includes the loading.
      #
      # @param port [Integer] of a fast site
      # @return [void]
      # @scheduling may wait
      def warm_up(port) = download(port) { nil }

      # @param site [String]
      # @param port [Integer]
      # @return [Hash] by the names of {COLUMNS}; also allocations and GC seconds
      # @scheduling may wait
      def measure(site, port)
        samples = Array.new(@repeat) { sample(port) }
        samples.sort_by! { |one| one["Total CPU Time"] }
        { "Site" => site, "Impl" => name }.merge(samples[(samples.size - 1) / 2])
      end

      # Measured in separate downloads, because counting takes time.
      #
      # @param port [Integer] of a fast site
      # @param bytes [Integer] of the file
      # @param calls [Boolean] whether to count system calls
      # @return [Hash]
      # @raise [Failure] if strace cannot be used
      # @scheduling may wait
      def count(port, bytes:, calls: false)
        found = { "Bytes Allocated" => (allocated(port) if bytes <= COUNTED_BYTES) }
        calls ? found.merge("System Calls" => calls(port)) : found
      end

      private

      def download(port, &chunk)
        WORLDS.fetch(@world).call(-> { RubyhttpClients.get(@client, port, &chunk) })
      end

      def sample(port)
        sizes = []
        before = now
        bytes = download(port) { |chunk| sizes << chunk.bytesize }
        spent = now.zip(before).map { |after, start| after - start }
        amounts(sizes, bytes || sizes.sum, spent.first).merge(costs(spent))
      end

      # @return [Array<Numeric>] wall-clock seconds, user and system time, objects, GC seconds
      def now
        used = Process.times
        [Process.clock_gettime(Process::CLOCK_MONOTONIC), used.utime + used.cutime,
         used.stime + used.cstime, GC.stat(:total_allocated_objects), GC.total_time / 1e9]
      end

      def amounts(sizes, bytes, seconds)
        mean = (bytes / sizes.size.to_f).round(1) if sizes.any?
        { "KBytes Transferred" => (bytes / 1024.0).round(1),
          "KBytes/second" => (bytes / 1024.0 / seconds).round(1), "Chunk count" => sizes.size,
          "Mean chunk size" => mean, "Min chunk size" => sizes.min, "Max chunk size" => sizes.max }
      end

      def costs(spent)
        seconds, user, system, objects, collecting = spent
        total = user + system
        { "User Time" => user.round(6), "System Time" => system.round(6),
          "Total CPU Time" => total.round(6), "Clock time" => seconds.round(6),
          "% CPU usage" => (total / seconds * 100).round(2),
          "Allocations" => objects, "GC Time" => collecting.round(6) }
      end

      def calls(port) = RubyhttpCalls.count(COUNTED, @client, @world, port.to_s)

      # Ruby counts objects, not their bytes: without a collection, all of them still exist.
      def allocated(port)
        GC.start
        GC.disable
        before = ObjectSpace.memsize_of_all
        warm_up(port)
        ObjectSpace.memsize_of_all - before
      ensure
        GC.enable
      end
    end
  end
end
