# frozen_string_literal: true

require "stringio"
require_relative "../version"
require_relative "error_stream"

module NB
  class Server
    # The part of the Rack env that is the same for every request.
    #
    # @api private
    module Environment
      # Reads as an empty body, for any number of readers. All requests share it, so nothing can be
      # stored in it.
      class EmptyInput
        # @return [String, nil] as IO#read at the end of a file
        def read(*wanted)
          wanted.empty? ? String.new : StringIO.new(String.new).read(*wanted)
        end

        # @return [nil] as IO#gets at the end of a file
        def gets(*) = nil
        # @return [Integer] 0
        def rewind = 0
        # @return [nil]
        def close = nil
        # @return [Integer] 0
        def size = 0
        def eof? = true

        # The other methods of an input, as on an empty StringIO.
        def method_missing(name, ...)
          return super unless respond_to_missing?(name)

          io = StringIO.new(String.new)
          io.public_send(name, ...).then { |result| result.equal?(io) ? self : result }
        end

        # @return [Boolean]
        def respond_to_missing?(name, _private = false)
          File.public_method_defined?(name) && StringIO.public_method_defined?(name)
        end
      end

      SOFTWARE = "NeverBlock/#{VERSION}".freeze

      # Keys that every request sets. They are in the template so that a copy has room for them: a
      # Hash of 13 keys has 16 places, and would otherwise grow in every request.
      OF_EACH = %w[
        REQUEST_METHOD REQUEST_URI REQUEST_PATH PATH_INFO REMOTE_ADDR SERVER_PORT rack.hijack
        rack.response_finished rack.after_reply neverblock.exchange neverblock.queue_seconds
      ].to_h { |key| [key, nil] }.freeze
      private_constant :OF_EACH, :SOFTWARE

      module_function

      # @param errors [#write] what rack.errors writes to
      # @param workers [Boolean] whether other processes serve the same application
      # @return [Hash]
      def template(errors, workers:)
        {
          "rack.errors" => ErrorStream.of(errors), "rack.url_scheme" => "http",
          "rack.input" => EmptyInput.new.freeze,
          "rack.hijack?" => true, "rack.multithread" => true, "rack.multiprocess" => workers,
          "rack.run_once" => false,
          "SERVER_NAME" => "localhost", "SCRIPT_NAME" => "", "QUERY_STRING" => "",
          "SERVER_PROTOCOL" => "HTTP/1.1", "SERVER_SOFTWARE" => SOFTWARE,
          "GATEWAY_INTERFACE" => "CGI/1.2", **rack_version, **OF_EACH
        }
      end

      # Rack 2 requires the version of its protocol; Rack 3 has no such key.
      def rack_version
        release = defined?(::Rack.release) ? ::Rack.release : "3"
        release.start_with?("2.", "1.") ? {"rack.version" => [1, 6].freeze} : {}
      end
    end
  end
end
