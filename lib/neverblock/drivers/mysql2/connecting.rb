# frozen_string_literal: true

require "socket"
require_relative "../../loop/offload"

module NB
  module Drivers
    module Mysql2
      # One Mysql2::Client#connect. The library looks up host names itself, which blocks, so we do
      # it and pass addresses to the library. What must be left to the library, or computes for
      # long, runs on a native thread.
      #
      # @api private
      class Connecting
        # With this host name the library uses the UNIX socket.
        LOCALHOST = "localhost"
        # CR_CONNECTION_ERROR and CR_CONN_HOST_ERROR: the next address may answer.
        UNREACHABLE = [2002, 2003].freeze
        HOST = 2
        # OpenSSL reads the system's CAs four times slower on ten threads at once than on one.
        ONE_AT_A_TIME = Thread::Mutex.new
        private_constant :LOCALHOST, :UNREACHABLE, :HOST, :ONE_AT_A_TIME

        # @param client [Mysql2::Client]
        # @param arguments [Array] of Mysql2::Client#connect
        def initialize(client, arguments)
          @client = client
          @arguments = arguments
          @options = client.query_options
        end

        # @yieldparam arguments [Array] for the original method
        # @scheduling may wait
        def run(&connect)
          return yield(@arguments) unless Mysql2.in_loop?
          return on_thread(&connect) if thread?
          return in_loop(@arguments, &connect) unless name?

          addresses = look_up or return on_thread(&connect)
          by_addresses(addresses, &connect)
        end

        private

        def host = @arguments[HOST]

        def on_thread
          return ONE_AT_A_TIME.synchronize { NB.offload { yield @arguments } } if system_ca?

          NB.offload { yield @arguments }
        end

        def in_loop(arguments) = Mysql2.call(@client, :connect) { yield arguments }

        def by_addresses(addresses, &connect)
          address = addresses.shift
          in_loop(@arguments.dup.tap { |given| given[HOST] = address }, &connect)
        rescue ::Mysql2::Error => error
          raise unless UNREACHABLE.include?(error.error_number)

          retry if addresses.any?
          raise named(error, address), cause: nil
        end

        # The library's own message, as if it had looked up the name.
        def named(error, address)
          ::Mysql2::Error.new_with_args(error.message.sub(address, host), nil,
                                        error.error_number, error.sql_state)
        end

        # @return [Array<String>, nil] nil: the library has to say why not
        def look_up
          Addrinfo.getaddrinfo(host, nil, nil, :STREAM).map(&:ip_address).uniq
        rescue SocketError
          nil
        end

        def name? = host && host != LOCALHOST && !host.b.match?(/:|\A[\d.]+\z/)

        # A failover list, a certificate that names the host, and reconnecting need the name in the
        # library. A TLS connection without a CA of its own reads the system's: 20 ms of CPU time.
        def thread?
          return true if @options[:default_file] || @options[:default_group]
          return true if name? && (host.include?(",") || @options[:reconnect] || verifies_name?)

          system_ca? || (tls? && !Mysql2.tls_waits)
        end

        def system_ca? = tls? && @options.values_at(:sslca, :sslcapath).none?

        def verifies_name? = @options[:sslverify] || ssl_mode.end_with?("verify_identity")

        def tls?
          return true if @options.values_at(:sslkey, :sslcert, :sslca, :sslcapath, :sslcipher).any?

          !@options[:sslverify].nil? || !(ssl_mode.empty? || ssl_mode.end_with?("disabled"))
        end

        def ssl_mode = @options[:ssl_mode].to_s.downcase
      end
    end
  end
end
