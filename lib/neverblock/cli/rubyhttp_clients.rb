# frozen_string_literal: true

require "open3"
require "set" # httpx 1.9 does not require it on Ruby 3.1
require_relative "rubyhttp_ways"
require_relative "terminal"

module NB
  module CLI
    # The clients: Net::HTTP with each of {RubyhttpWays}, other HTTP clients used as in their
    # documentation, and the program curl, which shows the cost in C.
    #
    # @example
    #   NB::CLI::RubyhttpClients.get("stock", port) { |chunk| p chunk.bytesize }
    module RubyhttpClients
      # The clients besides Net::HTTP, and what to load for each.
      LIBRARIES = {
        "curb" => "curb", "http.rb" => "http", "httpx" => "httpx", "excon" => "excon",
        "patron" => "patron", "typhoeus" => "typhoeus", "async-http" => "async/http/internet",
        "em-http-request" => "em-http-request"
      }.freeze
      # The program.
      CURL = "curl"
      # All names.
      NAMES = [*RubyhttpWays::ALL.keys, *LIBRARIES.keys, CURL].freeze
      # Names of groups.
      GROUPS = { "ways" => RubyhttpWays::ALL.keys, "clients" => [*LIBRARIES.keys, CURL],
                 "all" => NAMES }.freeze

      class << self
        # Loads a client.
        #
        # @param name [String] of {NAMES}
        # @return [String, nil] why it is not available here
        # @scheduling may wait
        def missing(name)
          return curl_missing if name == CURL
          return RubyhttpSplice.missing if name == RubyhttpWays::SPLICE

          require LIBRARIES[name] if LIBRARIES.key?(name)
          nil
        rescue LoadError
          "gem #{name == "http.rb" ? "http" : name} is not installed"
        end

        # @param name [String] of {NAMES}
        # @param port [Integer] on this machine
        # @yieldparam chunk [String] a part of the body; curl and "custom-splice" yield none
        # @return [Integer, nil] the number of bytes, if they were not yielded
        # @raise [KeyError] for an unknown name
        # @scheduling may wait
        def get(name, port, &chunk)
          url = "http://127.0.0.1:#{port}/"
          return curl(url) if name == CURL
          return RubyhttpWays.get(name, port, &chunk) unless LIBRARIES.key?(name)

          send(name.tr(".-", "__"), url, &chunk)
          nil
        end

        # Starts curl and downloads nothing, for who wants to know what its start costs.
        #
        # @return [Integer] 0
        # @raise [Failure] if it fails
        # @scheduling may wait
        def start_curl = curl("file:///dev/null")

        private

        def curl_missing
          "the program curl is not installed" unless Terminal.path(CURL)
        end

        def curl(url)
          told, status = Open3.capture2(CURL, "-sS", "-o", File::NULL, "-w", "%{size_download}",
            url)
          raise Failure, "curl ends with status #{status.exitstatus}" unless status.success?

          Integer(told)
        end

        def curb(url)
          Curl::Easy.new(url) do |easy|
            easy.on_body do |chunk|
              yield chunk
              chunk.bytesize
            end
          end.perform
        end

        def http_rb(url, &chunk) = ::HTTP.get(url).body.each(&chunk)

        def httpx(url, &chunk) = ::HTTPX.plugin(:stream).get(url, stream: true).each(&chunk)

        def excon(url) = Excon.get(url, response_block: ->(chunk, _rest, _all) { yield chunk })

        # It can yield a body in parts only into a file.
        def patron(url) = yield(Patron::Session.new(timeout: 30).get(url).body)

        def typhoeus(url)
          request = Typhoeus::Request.new(url)
          request.on_body do |chunk|
            yield chunk
            nil # :abort would end the transfer
          end
          request.run
        end

        def async_http(url, &chunk)
          Sync do
            internet = Async::HTTP::Internet.new
            internet.get(url) { |response| response.each(&chunk) }
          ensure
            internet&.close
          end
        end

        def em_http_request(url, &chunk)
          EM.run do
            http = EM::HttpRequest.new(url).get
            http.stream(&chunk)
            http.callback { EM.stop }
            http.errback { EM.stop }
          end
        end
      end
    end
  end
end
