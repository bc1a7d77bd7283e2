# frozen_string_literal: true

module NB
  module CLI
    # What keeps a job queue from its work, found before the queue starts and said in one sentence:
    # the queues themselves end with a backtrace, or log it again and again.
    module JobTrouble
      class << self
        # @param record [Class] a record of the queue
        # @param tables [String] what makes them
        # @return [void]
        # @raise [Failure] unless the database answers and has the record's table
        # @scheduling may wait
        # @api private
        def database(record, tables)
          table = record.table_name
          there = record.connection_pool.with_connection { |one| one.table_exists?(table) }
          raise Failure, "#{name_of(record)} has no table #{table}: run #{tables}" unless there
        rescue ActiveRecord::ActiveRecordError => error
          raise Failure, "cannot use #{name_of(record)}: #{line(error.cause || error)}: start it " \
                         "or create it (bin/rails db:prepare), or correct config/database.yml"
        end

        # @param config [Sidekiq::Config]
        # @return [void]
        # @raise [Failure] unless Redis answers
        # @scheduling may wait
        # @api private
        def redis(config)
          config.redis { |redis| redis.call("PING") }
        rescue RedisClient::Error, ArgumentError => error
          raise Failure, "cannot use Sidekiq's Redis: #{line(error)}: start it, or correct " \
                         "REDIS_URL or config.redis"
        end

        # @param file [String, nil] that the block reads
        # @yield reads the application's settings
        # @return the block's value
        # @raise [Failure] for a value that is not allowed, and a file that is no settings
        # @api private
        def settings(file = nil)
          yield
        rescue file ? StandardError : ArgumentError => error
          text = line((file && error.cause) || error)
          raise Failure, file ? "#{file}: #{text.sub(/\A\(.*?\): /, "")}" : text
        end

        # @param file [String]
        # @param value [Object] of config/queue.yml
        # @return [void]
        # @raise [Failure] unless it is a list of settings
        # @api private
        def workers(file, value)
          return if value.is_a?(Array) && value.all?(Hash)

          raise Failure, "#{file}: workers: must be a list of settings, got: #{value.inspect}"
        end

        private

        def line(error) = error.message.strip.lines.first.to_s.strip

        def name_of(record)
          place = record.connection_db_config
          "the database #{place.database.inspect} (#{place.name} of #{place.env_name})"
        rescue ActiveRecord::ActiveRecordError
          "the database"
        end
      end
    end
  end
end
