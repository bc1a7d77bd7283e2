# frozen_string_literal: true

require "json"
require_relative "finding"

module NB
  module CLI
    # What the author of AsyncIoTest expected in 2006, checked against rows of `nb iotest suite -J`.
    #
    # @example
    #   NB::CLI::IotestFindings.new(%w[warm.json cold.json]).all.each { |one| puts one.line }
    class IotestFindings
      # One transfer by one program, as it stands in a file.
      Row = Struct.new(:transfer, :program, :cold, :bytes, :client, :server) do
        # @return [Float]
        # @scheduling never waits
        def seconds = client.fetch("seconds")

        # @return [Float] of the client, per gigabyte
        # @scheduling never waits
        def cpu = per_gb(client)

        # @return [Float] of the server, per gigabyte
        # @scheduling never waits
        def server_cpu = per_gb(server)

        # @return [Float]
        # @scheduling never waits
        def gbits = bytes * 8 / seconds / 1e9

        private

        def per_gb(facts) = facts.values_at("cpu_user", "cpu_system").sum / bytes * 1e9
      end

      NB_PROGRAM = "nb"
      NETWORK = "network, larger chunks"
      # Finding => number, the transfer that has more of it, the one that has less. A transfer with
      # :cold was read from the disk or written to it.
      MORE = {
        "Larger chunks and buffers make the network faster" => [:seconds, ["network"], [NETWORK]],
        "TransmitPackets needs less CPU time than sends" =>
          [:cpu, [NETWORK], ["network, without copying"]],
        "Reading a file makes the transfer slower" => [:seconds, ["client's disk"], [NETWORK]],
        "TransmitFile needs less CPU time than reads and sends" =>
          [:cpu, ["client's disk"], ["client's disk, sendfile"]],
        "Writing a file makes the transfer slower" => [:seconds, ["server's disk"], [NETWORK]],
        "Two disks are slower than the client's alone" =>
          [:seconds, ["both disks"], ["client's disk"]],
        "A file that was read before comes faster, from memory" =>
          [:seconds, ["client's disk", :cold], ["client's disk"]]
      }.freeze
      PACKETS = "TransmitPackets fails for more than 64 K at a time"
      # How each number is shown.
      UNITS = { seconds: "%.3f s", cpu: "%.2f s/GB" }.freeze
      private_constant :NB_PROGRAM, :NETWORK, :MORE, :PACKETS, :UNITS

      # @return [Array<Row>]
      attr_reader :rows

      # @param paths [Array<String>] files of `nb iotest suite -J`
      # @raise [UsageError] for a file that cannot be read, or was not written by it
      # @scheduling may wait
      def initialize(paths)
        @rows = paths.flat_map { |path| read(path) }
        raise UsageError, "no rows in #{paths.join(", ")}" if @rows.empty?
      end

      # @return [Array<Finding>] verdicts: :holds, :same, :wrong or :unmeasured
      # @scheduling never waits
      def all
        [*MORE.map { |text, (number, more, less)| compare(text, number, more, less) }, packets]
      end

      # @param transfer [String]
      # @param program [String] "nb", "C" or another one's name
      # @param number [Symbol] a method of {Row}
      # @param cold [Boolean]
      # @return [Float, nil] the median; nil without a row
      # @scheduling never waits
      def number(transfer, program, number, cold: false) # rubocop:disable Metrics/ParameterLists
        wanted = [transfer, program, cold]
        found = rows.select { |row| [row.transfer, row.program, row.cold] == wanted }
        found.map(&number).sort.then { |sorted| sorted[(sorted.size - 1) / 2] if sorted.any? }
      end

      private

      def read(path)
        File.foreach(path).map do |line|
          Row.new(*JSON.parse(line).fetch_values("transfer", "program", "cold", "bytes", "client",
            "server"))
        end
      rescue SystemCallError => error
        raise UsageError, error.message
      rescue JSON::ParserError, KeyError, TypeError, NoMethodError
        raise UsageError, "#{path} was not written by nb iotest suite -J"
      end

      def compare(text, number, *ends) # rubocop:disable Metrics/ParameterLists
        high, low = ends.map do |transfer, cold|
          number(transfer, NB_PROGRAM, number, cold: !cold.nil?)
        end
        return Finding.unmeasured(text) unless high && low

        Finding.by_ratio(text, high / low, [high, low].map { |one| UNITS[number] % one }.join(", "))
      end

      # The suite sends 256 K at a time.
      def packets
        seconds = number("network, without copying", NB_PROGRAM, :seconds)
        return Finding.unmeasured(PACKETS) unless seconds

        Finding.new(PACKETS, :wrong, "256 K at a time, all arrived")
      end
    end
  end
end
