# frozen_string_literal: true

require_relative "registry"

# hiredis-client waits in C, and makes itself redis-client's default driver when it is loaded. A
# connection made inside a loop gets redis-client's own driver, which waits in the loop; others keep
# hiredis.
NB::Drivers.register("hiredis-client", constant: "RedisClient::HiredisConnection",
                                       features: %w[hiredis-client],
                                       version: "RedisClient::VERSION",
                                       versions: "~> 0.22") do |driver|
  waiting = Module.new do
    define_method(:driver) do
      chosen = super()
      next chosen unless driver.on? && chosen == RedisClient::HiredisConnection && NB.running?

      driver.notice("waits in C, so connections made inside a loop use redis-client's own " \
                    "driver; `driver: :ruby`, or leaving the gem out, says so without this notice")
      RedisClient.driver(:ruby)
    end
  end
  RedisClient::Config::Common.prepend(waiting)
end
