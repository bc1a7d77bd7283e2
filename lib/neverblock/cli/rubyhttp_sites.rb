# frozen_string_literal: true

require "socket"

module NB
  module CLI
    # The five sites of the study of 2008, simulated on this machine: HTTP servers that send as many
    # bytes as requested, at the speed of their line, and after its round-trip time.
    #
    # @example Ten megabytes from London
    #   NB::CLI::RubyhttpSites.open(10_000_000) do |ports|
    #     Net::HTTP.get("127.0.0.1", "/", ports["london"])
    #   end
    module RubyhttpSites
      # Site => bytes per second (nil: unlimited) and round-trip time in seconds.
      ALL = { "dallas" => [nil, 0.0], "washdc" => [40_000_000, 0.02],
              "chicago" => [20_000_000, 0.03], "seattle" => [10_000_000, 0.05],
              "london" => [5_000_000, 0.11] }.freeze
      # The interval in which a slow line sends bytes, in seconds.
      TICK = 0.01
      private_constant :TICK

      class << self
        # Runs the sites in a process of their own, so their CPU time does not count as the
        # client's.
        #
        # @param bytes [Integer] length of every answer
        # @param sites [Array<String>]
        # @yieldparam ports [Hash{String => Integer}] by site
        # @return [Object] value of the block
        # @scheduling may wait
        def open(bytes, sites = ALL.keys)
          servers = sites.to_h { |site| [site, TCPServer.new("127.0.0.1", 0)] }
          parent, child = IO.pipe
          pid = fork do
            child.close
            trap("INT", "IGNORE") # the terminal's INT is for the program, whose end closes the pipe
            NB.run { serve(servers, bytes, parent) }
          end
          parent.close
          yield(servers.transform_values { |server| server.local_address.ip_port })
        ensure
          child&.close # its end tells the sites to leave
          Process.wait(pid) if pid
          servers&.each_value(&:close)
        end

        private

        def serve(servers, bytes, parent)
          block = Random.new(2008).bytes(65_536)
          servers.each do |site, server|
            NB.async do
              loop do
                connection = server.accept
                NB.async { answer(connection, ALL.fetch(site), [bytes, block]) }
              end
            end
          end
          parent.read
          exit!(0)
        end

        def answer(connection, (rate, trip), body)
          connection.gets("\r\n\r\n") or return
          sleep(trip)
          connection.write("HTTP/1.1 200 OK\r\nContent-Length: #{body.first}\r\n" \
                           "Connection: close\r\n\r\n")
          pour(connection, rate, body)
        rescue SystemCallError
          nil # the client has gone
        ensure
          connection.close
        end

        def pour(connection, rate, (bytes, block))
          sent = 0
          started = clock
          while sent < bytes
            size = [bytes - sent, block.bytesize, rate ? (rate * TICK).ceil : bytes].min
            ahead = rate ? started + (sent / rate.to_f) - clock : 0
            sleep(ahead) if ahead.positive?
            connection.write(size == block.bytesize ? block : block.byteslice(0, size))
            sent += size
          end
        end

        def clock = Process.clock_gettime(Process::CLOCK_MONOTONIC)
      end
    end
  end
end
