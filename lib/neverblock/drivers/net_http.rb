# frozen_string_literal: true

require_relative "registry"
require_relative "any_ractor"
require_relative "../loop/repairs"

# Net::HTTP waits in the loop by itself, but most of a small request's time is its own Ruby code: it
# reads the response head line by line, with a regular expression for each, and writes the request
# head field by field. In a loop, C reads and writes plain heads as a whole
# (ext/neverblock/drivers/net_http.c). Whatever is not plain, or is patched (WebMock, a changed
# BufferedIO, debug output), is left to the library.
module NB
  module Drivers
    # The part of Net::HTTP that C does.
    module NetHTTP
      extend AnyRactor

      # The versions compared with our C code, as test/drivers/net_http_heads_test.rb does it.
      KNOWN = { "Net::HTTP::VERSION" => %w[0.2.0 0.3.2 0.4.0 0.4.1 0.5.0 0.6.0 0.7.0 0.8.0 0.9.0
                                           0.9.1 0.10.0],
                "Net::Protocol::VERSION" => %w[0.1.2 0.1.3 0.2.1 0.2.2 0.4.0] }.freeze
      # The methods that C replaces, by file.
      READING = { "Net::HTTPResponse.read_status_line" => "net/http/response.rb",
                  "Net::HTTPResponse.each_response_header" => "net/http/response.rb",
                  "Net::HTTPResponse.read_line" => "net/http/response.rb",
                  "Net::BufferedIO#readline" => "net/protocol.rb",
                  "Net::BufferedIO#readuntil" => "net/protocol.rb",
                  "Net::BufferedIO#rbuf_size" => "net/protocol.rb" }.freeze
      TAKING = { "Net::BufferedIO#rbuf_consume" => "net/protocol.rb",
                 "Net::BufferedIO#rbuf_flush" => "net/protocol.rb" }.freeze
      FILLING = { "add_field" => "net/http/header.rb", "set_field" => "net/http/header.rb",
                  "append_field_value" => "net/http/header.rb",
                  "validate_field_name" => "net/http/header.rb" }.freeze
      NAMING = { "each_capitalized" => "net/http/header.rb",
                 "capitalize" => "net/http/header.rb" }.freeze
      private_constant :KNOWN, :READING, :TAKING, :FILLING, :NAMING

      class << self
        # Applies the cure.
        #
        # @api private
        def install(driver)
          reason = unknown_version and return driver.off(reason)
          self.driver = driver
          attach
          read_in_c
          write_in_c
        rescue Patched => error
          driver.off(error.message)
        end

        # @return [Boolean] whether the cure is in force; whether a loop runs the caller, C asks
        # @api private
        def on? = Repairs.main? && @driver.on?

        private

        # Somebody has patched it before us.
        class Patched < StandardError; end
        private_constant :Patched

        def unknown_version
          KNOWN.each do |constant, versions|
            version = Driver.find(constant).to_s
            return "#{constant} is #{version}, not one of #{versions.join(", ")}" unless
              versions.include?(version)
          end
          nil
        end

        def attach
          NetHTTPCalls.attach(stock(READING), stock(TAKING), by_class(responses, FILLING),
            ::Net::BufferedIO.private_method_defined?(:rbuf_flush))
          NetHTTPCalls.attach_writing(by_class(requests, NAMING))
          own(::Net::HTTPResponse.singleton_class, :read_new, "net/http/response.rb")
          own(::Net::HTTPGenericRequest, :write_header, "net/http/generic_request.rb")
        end

        def read_in_c
          mine = self
          Repairs.repair(::Net::HTTPResponse.singleton_class, :read_new) do |original|
            proc do |sock|
              (NetHTTPCalls.read(self, sock) if mine.on?) || __send__(original, sock)
            end
          end
        end

        def write_in_c
          mine = self
          Repairs.repair(::Net::HTTPGenericRequest, :write_header) do |original|
            proc do |sock, ver, path|
              head = NetHTTPCalls.request_head(self, ver, path) if mine.on?
              head ? sock.write(head) : __send__(original, sock, ver, path)
            end
          end
        end

        # Those methods of the list that this version has.
        def stock(list)
          list.flat_map do |path, file|
            owner, separator, name = path.rpartition(/[.#]/)
            owner = Object.const_get(owner)
            found(separator == "." ? owner.singleton_class : owner, name.to_sym, file)
          end.freeze
        end

        def by_class(classes, list)
          classes.to_h do |one|
            [one, list.flat_map { |name, file| found(one, name.to_sym, file) }.freeze]
          end.freeze
        end

        def responses
          all = ::Net::HTTPResponse
          [*all::CODE_TO_OBJ.values, *all::CODE_CLASS_TO_OBJ.values, ::Net::HTTPUnknownResponse]
            .uniq
        end

        def requests = ::Net::HTTPRequest.subclasses.select(&:name)

        def found(owner, name, file)
          return [] unless owner.method_defined?(name) || owner.private_method_defined?(name)

          [owner, name, own(owner, name, file)]
        end

        def own(owner, name, file)
          method = owner.instance_method(name)
          return method if method.source_location&.first&.end_with?("/#{file}")

          raise Patched, "#{owner}##{name} is not Net::HTTP's own"
        end
      end
    end

    # Reads for it, in C (ext/neverblock/drivers/net_http.c).
    #
    # @api private
    module NetHTTPCalls
    end

    register("net-http", constant: "Net::HTTPResponse::CODE_TO_OBJ", features: %w[net/http],
                         version: "Net::HTTP::VERSION") { |driver| NetHTTP.install(driver) }
  end
end
