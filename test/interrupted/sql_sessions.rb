# frozen_string_literal: true

# rubocop:disable Layout/LineLength -- a statement each

module Libraries
  # What they have in common: rows (cell, n) of one table.
  class Session
    def initialize(cell, port)
      @cell = cell
      @port = port
    end

    def savepoints? = true
    def write(row) = run("INSERT INTO interrupted_matrix (cell, n) VALUES (#{@cell.number}, #{row})")
    def query = run("SELECT 41")
    def warm_up = run("SELECT 1")
    def copy_sql = "COPY interrupted_matrix FROM STDIN"
    def copied(row) = "#{@cell.number}\t#{row}\n"

    # @return [true, Object] true, or what the next one found
    def next_borrower
      run("SELECT 42")
      run("INSERT INTO interrupted_matrix (cell, n) VALUES (#{@cell.number}, 99)")
      Libraries.rows(@cell, all: true).include?(99) || "its row is in a transaction that nobody commits"
    rescue StandardError => error
      "#{error.class}: #{error.message.lines.first}"
    end
  end

  # ActiveRecord, without Rails.
  class Record < Session
    def initialize(cell, port)
      super
      adapter = Libraries::ALL.fetch(cell.client).adapter
      @model = Libraries.const_set("Record#{cell.number}", Class.new(ActiveRecord::Base) { self.abstract_class = true })
      size = ActiveRecord.version >= Gem::Version.new("8.1.a") ? :max_connections : :pool
      @model.establish_connection(adapter: adapter, **Libraries.options(adapter, port), size => 1, checkout_timeout: 10)
    end

    def run(sql) = @model.with_connection { |connection| connection.execute(sql) }
    def prepared = @model.with_connection { |connection| connection.exec_query("SELECT 40", "SQL", [], prepare: true) }

    def copy(row)
      @model.with_connection do |connection|
        db = connection.raw_connection
        db.copy_data(copy_sql) { db.put_copy_data(copied(row)) }
      end
    end

    def transaction(callbacks)
      @model.transaction do |transaction|
        transaction.after_commit { callbacks << :commit }
        transaction.after_rollback { callbacks << :rollback }
        raise ActiveRecord::Rollback if (back = yield)
      ensure
        @back = back
      end
      @back ? :rolled_back : :returned
    end

    def savepoint(&block) = @model.transaction(requires_new: true, &block)
    def close = @model.remove_connection
  end

  # Sequel.
  class Sequels < Session
    def initialize(cell, port)
      super
      adapter = Libraries::ALL.fetch(cell.client).adapter
      scheme = { "postgresql" => "postgres", "sqlite3" => "sqlite" }.fetch(adapter, adapter)
      options = Libraries.options(adapter, port)
      options[:user] = options.delete(:username)
      @db = Sequel.connect(adapter: scheme, max_connections: 1, pool_timeout: 10, keep_reference: false, test: false, **options)
    end

    def run(sql) = sql.start_with?("SELECT") ? @db.fetch(sql).all : @db.run(sql)

    def copy(row) = @db.copy_into(:interrupted_matrix, data: copied(row))

    def transaction(callbacks)
      back = nil
      @db.transaction(**(@cell.client.end_with?("sqlite3") && @cell.statement == :begin ? { mode: :immediate } : {})) do
        @db.after_commit { callbacks << :commit }
        @db.after_rollback { callbacks << :rollback }
        raise Sequel::Rollback if (back = yield)
      end
      back ? :rolled_back : :returned
    end

    def savepoint(&block) = @db.transaction(savepoint: true, &block)
    def close = @db.disconnect
  end

  # A driver in NB::ConnectionPool, with the statements written out.
  class Bare < Session
    def initialize(cell, port)
      super
      adapter = Libraries::ALL.fetch(cell.client).adapter
      options = Libraries.options(adapter, port)
      @pool = NB::ConnectionPool.new(size: 1, timeout: 10) { connect(adapter, options) }
    end

    def run(sql) = @pool.with { |connection| sqlite? ? connection.execute(sql) : connection.query(sql) }
    def copy(row) = @pool.with { |db| db.copy_data(copy_sql) { db.put_copy_data(copied(row)) } }

    # The rows, and a query, before the first answer is read.
    def pipeline(rows)
      @pool.with do |db|
        db.enter_pipeline_mode
        rows.each { |row| db.send_query_params("INSERT INTO interrupted_matrix (cell, n) VALUES (#{@cell.number}, #{row})", []) }
        db.send_query_params("SELECT 43", [])
        db.pipeline_sync
        (rows.size + 1).times { db.get_result.check && db.get_result }
        db.get_result.check # the end of it
        db.exit_pipeline_mode
      end
    end

    def transaction(_)
      @pool.with do
        run(sqlite? && @cell.statement == :begin ? "BEGIN IMMEDIATE" : "BEGIN")
        back = yield
        ended = run(back ? "ROLLBACK" : "COMMIT")
        # pg does not raise where a statement has failed before, as an interrupted COPY does.
        raise "not committed" if !back && ended.respond_to?(:cmd_status) && ended.cmd_status != "COMMIT"

        back ? :rolled_back : :returned
      end
    end

    # As careful programs do it.
    def savepoint
      run("SAVEPOINT one")
      yield
      run("RELEASE SAVEPOINT one")
    end

    def close = @pool.close

    private

    def sqlite? = @cell.client == "sqlite3"

    def connect(adapter, options)
      case adapter
      when "sqlite3" then SQLite3::Database.new(options[:database]).tap { |db| db.busy_timeout = options[:timeout] }
      when "mysql2" then Mysql2::Client.new(**options)
      when "trilogy" then Trilogy.new(options)
      else
        PG.connect(user: options[:username], dbname: options[:database],
                   **options.except(:username, :database))
      end
    end
  end
end
# rubocop:enable Layout/LineLength
