# frozen_string_literal: true

require_relative "registry"
require_relative "offload"
require_relative "../loop/offload"
require_relative "../loop/repairs"
require_relative "../sync/tidy"
require_relative "mysql2/connecting"

module NB
  module Drivers
    # By itself mysql2 waits in the loop only between sending a query and the first byte of its
    # answer. With this cure everything does: connecting, TLS, ping, prepared statements, `stream:
    # true`, long results. MariaDB's client library asks us wherever it would wait
    # (ext/neverblock/drivers/mysql_call.c). mysql2's own behaviour stays:
    #
    # - A timeout or a cancel in mid-call closes the connection, and raises that exception.
    # - `close` from another fiber ends the wait of the fiber that uses the connection ("Lost
    #   connection"). Any other call from another fiber gets mysql2's own "This connection is in
    #   use by".
    #
    # If mysql2 was built with Oracle's library, calls that would block run on native threads, and
    # downloads of long results still block.
    module Mysql2
      # The position of the MYSQL* in mysql2's struct mysql_client_wrapper (client.h).
      POSITIONS = { "0.5.5" => 56, "0.5.6" => 56, "0.5.7" => 64 }.freeze
      # The methods that talk to the server, in addition to `_query`, `connect` and `close`.
      CLIENT_CALLS = %i[async_result ping prepare select_db set_server_option next_result
                        store_result abandon_results!].freeze

      private_constant :POSITIONS, :CLIENT_CALLS

      class << self
        # @return [Boolean] whether we can wait for TLS in the client library
        attr_reader :tls_waits

        # Applies the cure.
        #
        # @api private
        def install(driver)
          @driver = driver
          path = $LOADED_FEATURES.find { |feature| feature.match?(%r{/mysql2/mysql2\.\w+\z}) }
          answer = MysqlWait.attach(path.to_s, POSITIONS.fetch(::Mysql2::VERSION))
          return on_threads(answer) if answer.is_a?(String)

          _, @tls_waits = answer
          Tidy.ask(::Mysql2::Client) { |client| MysqlWait.in_transaction?(client) }
          Tidy.ask(::Mysql2::Client, :unread) { |client| perhaps_unread?(client) }
          wait_in_client
          wait_in_statement
          wait_in_result
        end

        # Makes the library wait in the loop during the block, which is a call of mysql2.
        #
        # @param client [Mysql2::Client, nil] nil: one made before the cure
        # @yieldparam in_loop [Boolean]
        # @api private
        def call(client, use = :talk, &original)
          return yield unless client && @driver.on?

          MysqlWait.call(client, use, &original)
        end

        # @return [Boolean] whether a loop runs the caller and the cure is on
        # @api private
        def in_loop? = @driver.in_loop?

        # Links a statement or a streamed result to its client. The garbage collector leaves it to
        # that client's next call, because freeing it means talking to the server.
        #
        # @api private
        def keep(made, client)
          streams = made.is_a?(::Mysql2::Result)
          return made unless streams ? streamed?(made) : made.is_a?(::Mysql2::Statement)

          made.instance_variable_set(:@neverblock_client, client)
          MysqlWait.free_later(made, client, streams) if client && @driver.on?
          made
        end

        # A statement that could not be prepared is garbage at once. This is rare, and searching the
        # heap takes a few ms.
        #
        # @api private
        def keep_failed(client)
          return unless in_loop?

          ObjectSpace.each_object(::Mysql2::Statement) do |statement|
            keep(statement, client) if MysqlWait.made_by?(client, statement)
          end
        end

        # @param block [Proc] of the program, for a row
        # @return [Proc] the same, outside of the call that reads the rows
        # @api private
        def aside(block) = proc { |row| MysqlWait.aside { block.call(row) } }

        # @api private
        def streamed?(result) = result.instance_variable_get(:@query_options)[:stream]

        # Without the library's hook, mysql2 runs such calls on threads.
        #
        # @param reason [String] why there is no hook
        # @api private
        def on_threads(reason)
          @driver.notice("connecting, ping and prepared statements run on native threads, and " \
                         "long results block the loop: #{reason}. Install libmariadb-dev and " \
                         "build mysql2 anew")
          (CLIENT_CALLS - %i[async_result] + %i[connect]).each { |name| offload(::Mysql2::Client, name) }
          offload(::Mysql2::Statement, :_execute)
        end

        private

        def wait_in_client
          mine = self
          wait_in_query(::Mysql2::Client.instance_method(:async_result))
          CLIENT_CALLS.each do |name|
            Repairs.replace(::Mysql2::Client, name) do |original|
              proc do |*arguments|
                mine.call(self) { mine.keep(original.bind_call(self, *arguments), self) }
              rescue ::Mysql2::Error
                mine.keep_failed(self) if name == :prepare
                raise
              end
            end
          end
          wait_in_close
          Repairs.replace(::Mysql2::Client, :connect) do |original|
            proc do |*arguments|
              Connecting.new(self, arguments).run { |given| original.bind_call(self, *given) }
            end
          end
        end

        # Whether another result follows, or one was left to the program, which may have read it:
        # the server can tell. Asked once. A client that was never initialized has no memory to
        # look at.
        def perhaps_unread?(client)
          return false unless client.instance_variable_defined?(:@query_options)

          left = client.instance_variable_get(:@neverblock_unread)
          client.instance_variable_set(:@neverblock_unread, false)
          left || client.more_results?
        end

        # By itself mysql2 would send, wait for the fd (for which Ruby makes an IO object), and
        # read. If the query is sent as an async one, the library waits when it reads: 20 % less CPU
        # per small query.
        def wait_in_query(result)
          mine = self
          Repairs.replace(::Mysql2::Client, :_query) do |original|
            proc do |sql, options|
              @neverblock_unread = true if options[:async] || options[:stream]
              mine.call(self) do |in_loop|
                next mine.keep(original.bind_call(self, sql, options), self) if
                  !in_loop || options[:async] || @read_timeout

                options[:async] = true # this Hash is made by Mysql2::Client#query
                original.bind_call(self, sql, options)
                options[:async] = false
                mine.keep(result.bind_call(self), self)
              end
            end
          end
        end

        def wait_in_close
          mine = self
          Repairs.replace(::Mysql2::Client, :close) do |original|
            proc do
              MysqlWait.evict(self)
              mine.call(self, :close) { original.bind_call(self) }
            end
          end
        end

        def wait_in_statement
          mine = self
          %i[_execute close].each do |name|
            Repairs.replace(::Mysql2::Statement, name) do |original|
              proc do |*arguments, **options|
                client = @neverblock_client
                mine.call(client) do
                  mine.keep(original.bind_call(self, *arguments, **options), client)
                end
              end
            end
          end
        end

        # Other results are in memory, so another fiber may use the connection meanwhile.
        def wait_in_result
          mine = self
          %i[each free].each do |name|
            Repairs.replace(::Mysql2::Result, name) do |original|
              proc do |*arguments, &block|
                client = @neverblock_client
                block = mine.aside(block) if client && block
                done = mine.call(client) { original.bind_call(self, *arguments, &block) }
                MysqlWait.has_read(self) if client
                done
              end
            end
          end
        end

        # An interrupted fiber waits for the end of a call, which uses the connection. Not while it
        # connects, because nobody else has that client.
        def offload(owner, name)
          mine = self
          place = name == :connect ? NB : Drivers
          Repairs.replace(owner, name) do |original|
            proc do |*arguments, **options|
              next original.bind_call(self, *arguments, **options) unless mine.in_loop?

              place.offload { original.bind_call(self, *arguments, **options) }
            end
          end
        end
      end
    end

    # Lets the client library wait in the loop; the rest is C (ext/neverblock/drivers/mysql_call.c).
    #
    # @api private
    module MysqlWait
      # Called from C.
      #
      # @raise [Mysql2::Error] in mysql2's words
      def self.in_use(fiber)
        raise ::Mysql2::Error, "This connection is in use by: #{fiber.inspect}"
      end
    end

    register("mysql2", constant: "Mysql2::Client", version: "Mysql2::VERSION",
                       versions: [">= 0.5.5", "< 0.5.8"]) { |driver| Mysql2.install(driver) }
  end
end
