# frozen_string_literal: true

require "rbconfig"
require_relative "../frame/listening"
require_relative "server_process"

module Bench
  module Workloads
    # A hundred thousand things in a store: found by number, named by a string of the same length.
    # MariaDB and Redis run already; a server that speaks MongoDB's protocol is started for it.
    class Things
      NUMBERS = (100_001..200_000).freeze
      # The bytes of a name: so a page of three has the article's 171 and 1,680 bytes.
      SIZES = { "mysql2" => 40, "trilogy" => 40, "redis" => 543, "mongo" => 543 }.freeze
      MONGO = File.expand_path("../../test/support/mongo_server.rb", __dir__)
      # Seconds until a store listens, or is full.
      PATIENCE = 15
      private_constant :SIZES, :MONGO, :PATIENCE

      # @return [Integer] where the store listens
      attr_reader :port

      # @param store [String] mysql2, trilogy, redis or mongo
      # @param port [Integer, nil] of the server that runs
      # @param cores [Array<Integer>] for one that is started
      def initialize(store, port, cores:)
        @name = "x" * SIZES.fetch(store)
        @port = port
        case store
        when "redis" then fill_redis
        when "mongo" then fill_mongo(cores)
        else fill_mariadb
        end
      end

      # @return [void]
      def stop
        return unless @pid

        Process.kill(:KILL, @pid)
        Process.wait(@pid)
      rescue Errno::ESRCH, Errno::ECHILD
        nil
      end

      private

      def fill_mariadb
        require "mysql2"
        client = Mysql2::Client.new(host: "127.0.0.1", port: port, username: "nb",
                                    password: "secret", database: "nb")
        client.query("create or replace table things (id int primary key, name varchar(#{size}))")
        client.query("insert into things select seq, '#{@name}' " \
                     "from seq_#{NUMBERS.begin}_to_#{NUMBERS.end}")
      ensure
        client&.close
      end

      def size = @name.bytesize

      def fill_redis
        require "redis-client"
        client = RedisClient.new(port: port, timeout: PATIENCE) # all in one command
        client.call("EVAL", "for i = ARGV[1], ARGV[2] do redis.call('SET', 'thing:' .. " \
                            "string.format('%d', i), ARGV[3]) end", 0, NUMBERS.begin, NUMBERS.end,
                    @name)
      ensure
        client&.close
      end

      def fill_mongo(cores)
        require "mongo"
        Mongo::Logger.logger.level = Logger::FATAL
        start_mongo(cores)
        client = Mongo::Client.new(["127.0.0.1:#{port}"], database: "nb", connect: :direct)
        NUMBERS.each_slice(5_000) do |numbers|
          client[:things].insert_many(numbers.map { |number| { _id: number, name: @name } })
        end
      ensure
        client&.close
      end

      def start_mongo(cores)
        @port = Listening.free_port
        command = [*Runtime.ruby, MONGO, port.to_s]
        @pid = Process.spawn(*ServerProcess.pin(cores, command))
        Listening.wait(@pid, PATIENCE) { Listening.at?(port) }
      end
    end
  end
end
