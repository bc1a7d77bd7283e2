# frozen_string_literal: true

require "json"
require_relative "../../server/control"
require_relative "rates"

module NB
  module CLI
    module Top
      # Asks a server for snapshots: once, or again and again on a thread of its own, so that keys
      # are answered also while the server is not.
      #
      # @api private
      class Feed
        # Seconds for one answer. A master asks each worker for a second.
        PATIENCE = 5
        # How much is asked for at a time.
        DETAIL = "fibers=500&requests=500&frames=60"
        # One answer, or why there is none.
        Sample = Struct.new(:snapshot, :rates, :error)
        private_constant :PATIENCE

        # @param address [String] of a control socket
        # @param interval [Float] seconds between two snapshots
        def initialize(address, interval)
          @address = address
          @interval = interval
        end

        # @return [Sample]
        # @raise [Failure] if there is no answer
        # @raise [ArgumentError] for an address that is none
        def ask
          before = @snapshot
          @snapshot = Feed.snapshot(@address, DETAIL, within: PATIENCE)
          Sample.new(@snapshot, Rates.new(before, @snapshot))
        end

        # @yieldparam [Sample] each, in the order of time
        # @return [Thread]
        def run
          Thread.new do
            loop do
              yield begin
                ask
              rescue Failure => error
                Sample.new(nil, nil, error.message)
              end
              sleep @interval
            end
          end
        end

        # @param query [String] as `/snapshot` takes it
        # @return [Hash{Symbol=>Object}]
        # @raise [Failure] if there is no answer, or none of a NeverBlock that has /snapshot
        # @raise [ArgumentError] for an address that is none
        def self.snapshot(address, query, within:)
          status, body = Server::Control.exchange(address, "/snapshot?#{query}", within: within)
          return JSON.parse(body, symbolize_names: true) if status == 200

          raise Failure, "#{address} has no snapshot: #{refusal(status, body)}"
        rescue JSON::ParserError
          raise Failure, "#{address} answers something else than a snapshot"
        rescue Errno::ETIMEDOUT => error
          raise Failure, "no answer at #{address}: #{error.message}: the process is stopped, or " \
                         "C code in it keeps the GVL, which the watchdog reports on its stderr"
        rescue SystemCallError, SocketError, IOError => error
          raise Failure, "nobody answers at #{address}: #{error.message}"
        end

        def self.refusal(status, body)
          return "it is told by unix:// only, since it has paths" if status == 404

          "#{status}, #{JSON.parse(body)["error"]}"
        end
        private_class_method :refusal
      end
    end
  end
end
