# frozen_string_literal: true

module Libraries
  # WATCH, a read, MULTI and EXEC; or a pipeline. Its rows are keys "(cell, n)".
  class RedisSession < Session
    # What the application raises so that nothing is written.
    Back = Class.new(StandardError)

    def initialize(cell, port)
      super
      @pool = NB::ConnectionPool.new(size: 1, timeout: 10) { connect(port) }
    end

    def savepoints? = false
    def warm_up = @pool.with { |redis| redis.call("PING") }
    def write(row) = @buffer.call("SET", key(row), row)
    def query = @redis.call("GET", probe)

    def transaction(_)
      @pool.with do |redis|
        @redis = @buffer = redis
        @cell.statement == :pipeline ? yield : watched { yield && raise(Back) }
      end
      :returned
    rescue Back
      :rolled_back
    end

    def pipeline(rows)
      buffered(:pipelined) { |buffer| rows.each { |row| buffer.call("SET", key(row), row) } }
    end

    # A WATCH that was left behind would make the next one's EXEC write nothing.
    def next_borrower
      number = Libraries.redis { |other| other.call("INCR", probe) }
      @pool.with do |redis|
        @redis = redis
        answers = [query.to_i, buffered(:multi) { |buffer| buffer.call("ECHO", "42") }]
        answers == [number, ["42"]] || "it got #{answers.inspect}"
      end
    rescue StandardError => error
      "#{error.class}: #{error.message}"
    end

    def close = @pool.close

    private

    def key(row) = "(#{@cell.number}, #{row})"
    def probe = "probe #{@cell.number}"
  end

  # By redis-client.
  class RedisClients < RedisSession
    private

    def connect(port)
      RedisClient.new(host: "127.0.0.1", port: port, reconnect_attempts: 0, timeout: 10)
    end

    def watched
      @redis.multi(watch: [probe]) do |buffer|
        @buffer = buffer
        yield
      end
    end

    def buffered(name, &block) = @redis.public_send(name, &block)
  end

  # By the gem redis.
  class Redises < RedisSession
    private

    def connect(port)
      Redis.new(host: "127.0.0.1", port: port, reconnect_attempts: 0, timeout: 10)
    end

    # As its documentation has it: what is read may decide what is written.
    def watched
      @redis.watch(probe) do
        rows = []
        @buffer = Struct.new(:rows) { def call(*command) = rows << command }.new(rows)
        yield
        buffered(:multi) { |buffer| rows.each { |command| buffer.call(*command) } }
      end
    end

    def buffered(name, &block) = @redis.public_send(name, &block)
  end
end
