# frozen_string_literal: true

require "set" # httpx 1.9 does not ask for it on Ruby 3.1
require_relative "buffers"

module Bench
  module Workloads
    # Downloads from one of the sites of `nb rubyhttp` with one HTTP client, in parts where it can.
    class HttpClients < Buffers
      DEFAULTS = Buffers::DEFAULTS.merge(impl: "net_http")

      # Only the client that is measured is loaded.
      def before
        library = { "net_http" => "net/http", "curb" => "curb", "http_rb" => "http",
                    "em_http" => "em-http-request", "async_http" => "async/http/internet" }
        require library.fetch(params[:impl], params[:impl])
      end

      # @return [Integer] bytes
      def round
        bytes = 0
        send(params[:impl], "http://127.0.0.1:#{@port}/") { |chunk| bytes += chunk.bytesize }
        expect(bytes == params[:bytes], "#{bytes} bytes instead of #{params[:bytes]}")
        bytes
      end

      private

      def net_http(url, &chunk)
        uri = URI(url)
        Net::HTTP.start(uri.host, uri.port) do |http|
          http.request_get("/", "Accept-Encoding" => "identity") do |response|
            response.read_body(&chunk)
          end
        end
      end

      def curb(url)
        Curl::Easy.new(url) do |easy|
          easy.on_body { |chunk| yield(chunk) && chunk.bytesize }
        end.perform
      end

      def http_rb(url, &chunk) = HTTP.get(url).body.each(&chunk)

      def httpx(url, &chunk) = HTTPX.plugin(:stream).get(url, stream: true).each(&chunk)

      def excon(url) = Excon.get(url, response_block: ->(chunk, _rest, _all) { yield chunk })

      # It has no way to give a body in parts, except into a file.
      def patron(url) = yield(Patron::Session.new(timeout: 30).get(url).body)

      def typhoeus(url)
        request = Typhoeus::Request.new(url)
        request.on_body { |chunk| yield(chunk) && nil }
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

      def em_http(url, &chunk)
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
