# frozen_string_literal: true

require "digest"
require "fileutils"
require "rbconfig"
require_relative "../../test/support/databases"

module Others
  # For {Surroundings}: Redis, where the suites look for it.
  module RedisPlaces
    private

    # Resque's tests know one port, and start Redis there.
    def resque
      change("test/*.rb", /localhost:\d{4,5}/, "localhost:#{Databases.redis.port}")
      change("test/*.rb", /:port => \d{4,5}/, ":port => #{Databases.redis.port}")
      change("test/test_helper.rb", /^ *`redis-server .*/, "")
      {}
    end

    def default_redis = { "REDIS_URL" => Databases.redis.url }

    # Nobody has Sidekiq Pro, for whose license the tests would ask Bundler.
    def sidekiq_throttled
      change("spec/spec_helper.rb", /unless Bundler\.settings\[.*/, "unless false")
      default_redis
    end

    # redis-rb's tests know one port.
    def redis
      place = Servers.fetch("redis-others") do |port, folder|
        %W[redis-server --port #{port} --bind 127.0.0.1 --dir #{folder} --save #{""}
           --unixsocket #{folder}/socket --enable-debug-command local]
      end
      helper = "#{@folder}/test/helper.rb"
      File.write(helper, File.read(helper).sub(/^PORT +=.*/, "PORT = #{place.port}"))
      { "REDIS_SOCKET_PATH" => "#{place.folder}/socket" }
    end

    # redis-client's tests start Redis and its proxies themselves, and would fetch and build both.
    def toxic_redis
      place = "#{@folder}/tmp/cache/#{RbConfig::CONFIG["host_cpu"]}-linux"
      program("#{place}/redis-7.0/src/redis-server",
              "exec #{Databases.program("redis-server")} \"$@\"")
      program("#{place}/toxiproxy-server",
              "exec #{RbConfig.ruby} #{File.expand_path("toxiproxy.rb", __dir__)} \"$@\"")
      archive = "#{@folder}/tmp/redis-7.0.tar.gz"
      FileUtils.touch(archive)
      File.write("#{place}/redis-7.0/build.checksum", Digest::SHA1.file(archive).hexdigest)
      {}
    end

    # Bundler would have loaded it, and the tests ask a default port.
    def redis_namespace
      change("spec/spec_helper.rb", /^Bundler\.(setup|require).*/, "")
      default_redis
    end

    # One Redis for all three of redlock's.
    def redlock
      port = Databases.redis.port.to_s
      (1..3).to_h { |number| ["REDIS#{number}_PORT", port] }
            .merge("DEFAULT_REDIS_PORT" => port, "CI" => "true")
    end
  end
end
