# frozen_string_literal: true

require "net/http"

module Bench
  module Workloads
    # aws-sdk-s3, whose requests ask `nb delayd` for a delay. Each is signed, which that ignores.
    module DelayedS3
      # Adds the option :query of the client to the address of each request.
      def self.plugin
        @plugin ||= begin
          handler = Class.new(Seahorse::Client::Handler) do
            def call(context)
              context.http_request.endpoint.query = context.config.query
              @handler.call(context)
            end
          end
          Class.new(Seahorse::Client::Plugin) do
            option(:query)
            handler(handler, step: :sign, priority: 0)
          end
        end
      end

      # @param port [Integer]
      # @param delay_ms [Integer]
      # @return [Aws::S3::Client]
      def self.client(port, delay_ms)
        Aws::S3::Client.add_plugin(plugin)
        Aws::S3::Client.new(query: "ms=#{delay_ms}", endpoint: "http://127.0.0.1:#{port}",
                            region: "us-east-1", access_key_id: "nb", secret_access_key: "secret",
                            force_path_style: true, http_read_timeout: 60, http_open_timeout: 60,
                            retry_limit: 0)
      end
    end

    # A request by each fiber of a pool, all at once, to a server that waits before it answers: by
    # libraries that use Net::HTTP inside.
    class Libraries < Workload
      DEFAULTS = { library: "net/http", count: 1_000, delay_ms: 1_000, warm_up: 20 }.freeze

      def prepare
        require params[:library] unless params[:library] == "net/http"
        gather(params[:warm_up]) { check(get(url(0))) }
      end

      # @return [Hash] :value in seconds
      def measure
        GC.start
        count = params[:count]
        sample = timed { gather(count) { check(get(url(params[:delay_ms]))) } }
        @metrics[:cpu_us_per_op] = sample[:cpu] / count * 1e6
        sample.merge(value: sample[:elapsed], operations: count)
      end

      private

      def s3(url)
        delay = Integer(url[/ms=(\d+)/, 1])
        @clients ||= Hash.new { |made, ms| made[ms] = DelayedS3.client(params[:port], ms) }
        @clients[delay].get_object(bucket: "nb", key: "one").body.read
      end

      def url(delay) = "http://127.0.0.1:#{params[:port]}/?ms=#{delay}"

      # Ten thousand connections begin in one moment: a library's usual patience may be too short.
      def get(url)
        case params[:library]
        when "rest-client"
          RestClient::Request.execute(method: :get, url: url, timeout: 60).body
        when "httparty" then HTTParty.get(url, timeout: 60).body
        when "aws-sdk-s3" then s3(url)
        when "faraday" then Faraday.new(request: { timeout: 60 }).get(url).body
        else Net::HTTP.get(URI(url))
        end
      end

      def check(body) = expect(body == "done", "the body is #{body.inspect}")
    end
  end
end
