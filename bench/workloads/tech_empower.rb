# frozen_string_literal: true

require_relative "served"

module Bench
  module Workloads
    # One of TechEmpower's pages. Before and after the load each answer is looked at to the byte, or
    # compared with what the database holds.
    class TechEmpower < Served
      DEFAULTS = Served::DEFAULTS.merge(kind: "plaintext", queries: 20)
      KINDS = {
        "plaintext" => { path: "/plaintext", bytes: 13, pipeline: 16, type: "text/plain" },
        "json" => { path: "/json", bytes: 27, type: "application/json" },
        "db" => { path: "/db", bytes: 27, type: "application/json" },
        "queries" => { path: "/queries?queries=", bytes: 29, type: "application/json" },
        "fortunes" => { path: "/fortunes", bytes: 1078, type: "text/html; charset=utf-8" },
        "updates" => { path: "/updates?queries=", bytes: 29, type: "application/json" }
      }.freeze
      FORTUNES = File.expand_path("../served/fortunes.html", __dir__)
      # What a request gets that asks for so many.
      COUNTS = { "0" => 1, "many" => 1, "" => 1, "501" => 500 }.freeze
      private_constant :FORTUNES, :COUNTS

      # The tables must be there before the server is.
      def before
        @store = Store.new(database) if database
        super
        @kind = @kind.merge(path: "#{@kind[:path]}#{params[:queries]}") if several?
      end

      # Whatever happened: the connection is closed.
      def run
        super
      ensure
        @store&.close
      end

      private

      def application = "tech_empower.ru"

      def several? = KINDS.fetch(params[:kind])[:path].end_with?("=")

      def load_environment = super.merge("LOAD_PIPELINE" => @kind[:pipeline]&.to_s)

      def check
        @store&.settle
        Net::HTTP.start("127.0.0.1", @server.port) do |http|
          look_at(http.get(@kind[:path]), params[:queries])
          COUNTS.each { |text, count| look_at(http.get(@kind[:path].sub(/\d+\z/, text)), count) } if
            several?
        end
      rescue SystemCallError, IOError, JSON::ParserError => error
        wrong("#{error.class} in a single request: #{error.message}")
      end

      def look_at(answer, queries)
        expect(answer.code == "200", "status #{answer.code} to a single request")
        type = answer["content-type"]
        wanted = KINDS.dig(params[:kind], :type)
        # Rails adds it; TechEmpower lets it.
        expect([wanted, "#{wanted}; charset=utf-8"].include?(type), "a type of #{type}")
        expect(answer["date"] && answer["server"], "no date, or no server, in the head")
        send(params[:kind], answer.body.dup.force_encoding("UTF-8"), queries)
      end

      def plaintext(body, _) = same(body, "Hello, World!")

      def json(body, _) = same(body, '{"message":"Hello, World!"}')

      def fortunes(body, _) = same(body, File.read(FORTUNES, encoding: "UTF-8"))

      def db(body, _) = held([JSON.parse(body)])

      def queries(body, count)
        rows = JSON.parse(body)
        expect(rows.is_a?(Array) && rows.size == count, "not #{count} rows: #{body[0, 80]}")
        held(Array(rows))
      end

      # Read over another connection: so they are really written.
      def updates(body, count) = queries(body, count)

      def held(rows)
        # A row that was updated twice holds the later number.
        told = rows.to_h { |row| row.values_at("id", "randomNumber") }
        found = @store.numbers(told.keys)
        told.each do |id, number|
          expect(found[id] == number, "row #{id} holds #{found[id].inspect}, not #{number.inspect}")
        end
      end

      def same(body, wanted) = expect(body == wanted, "a body of #{body[0, 80].inspect}")
    end
  end
end

require_relative "tech_empower/store"
