# frozen_string_literal: true

require "json"
require_relative "../../server/control"
require_relative "rates"
require_relative "shape"

module NB
  module CLI
    module Top
      # Asks a server for snapshots: once, or repeatedly on a thread of its own, so keys are
      # answered even while the server is not answering.
      #
      # @api private
      class Feed
        # Seconds to wait for one answer. A master asks each worker for 2.5 seconds.
        PATIENCE = 5
        # The limits of one request.
        DETAIL = "fibers=500&requests=500&frames=60"
        # One answer, or the reason why there is none.
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
        # @raise [ArgumentError] for an invalid address
        def ask
          before = @snapshot
          @snapshot = Feed.snapshot(@address, DETAIL, within: PATIENCE)
          Sample.new(@snapshot, Rates.new(before, @snapshot))
        end

        # @yieldparam [Sample] each one, in order of time
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

        # @param query [String] for `/snapshot`
        # @return [Hash{Symbol=>Object}]
        # @raise [Failure] if there is no answer, or the server does not know /snapshot
        # @raise [ArgumentError] for an invalid address
        def self.snapshot(address, query, within:)
          status, body = Server::Control.exchange(address, "/snapshot?#{query}", within: within)
          raise Failure, "#{address} has no snapshot: #{refusal(address, status, body)}" unless
            status == 200

          snapshot = JSON.parse(body, symbolize_names: true)
          return snapshot if Shape.fits?(snapshot)

          raise Failure, "#{address} answers with something other than a snapshot of NeverBlock " \
                         "#{VERSION}"
        rescue JSON::ParserError
          raise Failure, "#{address} answers with something other than a snapshot"
        rescue Errno::ETIMEDOUT => error
          raise Failure, "no answer at #{address}: #{error.message}: the process is stopped, or " \
                         "C code in it keeps the GVL, which the watchdog reports on its stderr"
        rescue SystemCallError, SocketError, IOError => error
          raise Failure, "nothing answers at #{address}: #{error.message}"
        end

        def self.refusal(address, status, body)
          return "give the unix:// address, since snapshots contain paths" if
            status == 404 && !address.start_with?("unix://")

          words = JSON.parse(body)
          ["status #{status}", *(words["error"] if words.is_a?(Hash))].join(", ")
        end
        private_class_method :refusal
      end
    end
  end
end
