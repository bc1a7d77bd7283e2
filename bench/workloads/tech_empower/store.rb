# frozen_string_literal: true

require "pg"

module Bench
  module Workloads
    class TechEmpower < Served
      # The two tables, as the server's pages find them.
      class Store
        MESSAGES = [
          "Fast is what remains when nothing waits.",
          "No test is slower than the one nobody wrote.",
          '<script>alert("No browser may ever run this.");</script>',
          "The server's answer was right; the question was not.",
          "Every queue is short until noon.",
          "フレームワークは待たない",
          "Measure twice, commit once & sleep well.",
          "A bug that hides is older than one that bites.",
          "Tabs < spaces < silence",
          "Locks keep honest threads honest.",
          "Yesterday's shortcut is the road of today.",
          "Cache first, and then ask what was stale."
        ].freeze
        private_constant :MESSAGES

        # @param url [String] of the database, whose tables are made anew
        def initialize(url)
          @connection = PG.connect(url)
          @connection.exec(<<~SQL)
            set client_min_messages = warning;
            drop table if exists world, fortune;
            create table world (id int primary key, randomnumber int not null);
            insert into world select id, 1 + id * 7919 % 10000 from generate_series(1, 10000) as id;
            create table fortune (id int primary key, message text not null);
            analyze world;
          SQL
          MESSAGES.each.with_index(1) do |message, id|
            @connection.exec_params("insert into fortune values ($1, $2)", [id, message])
          end
        end

        # @param ids [Array<Integer>]
        # @return [Hash{Integer => Integer}] what each row holds now
        def numbers(ids)
          @connection.exec_params("select id, randomnumber from world where id = any($1::int[])",
                                  ["{#{ids.join(",")}}"])
                     .values.to_h { |row| row.map(&:to_i) }
        end

        # Waits until nobody else has begun or ended a statement for a tenth of a second: requests
        # that wrk no longer waits for are still answered.
        # @return [void]
        def settle
          sleep 0.02 until @connection.exec(<<~SQL).getvalue(0, 0) == "t"
            select coalesce(max(state_change) < clock_timestamp() - interval '0.1 s', true)
            from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()
          SQL
        end

        # @return [void]
        def close = @connection.close
      end
    end
  end
end
