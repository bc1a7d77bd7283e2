# frozen_string_literal: true

# Counts visitors: in Redis where REDIS_URL names one, else here.
class Visits
  @count = 0

  class << self
    def add = redis ? redis.incr("shop:visits") : @count += 1

    private

    def redis
      return unless ENV["REDIS_URL"]

      @redis ||= begin
        require "redis"
        Redis.new(url: ENV["REDIS_URL"])
      end
    end
  end
end
