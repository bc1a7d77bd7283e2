# frozen_string_literal: true

require "erb"
require "json"
require "pg"
require "time"

# TechEmpower's six pages, the same text for every server and framework. They ask the database with
# prepared statements, over plain connections in a queue: threads and any scheduler can wait for it.
module TechEmpower
  HELLO = "Hello, World!"
  IDS = (1..10_000).freeze
  # What a request that names too few or too many queries gets.
  QUERIES = (1..500).freeze
  STATEMENTS = {
    "world" => "select id, randomnumber from world where id = $1",
    "update" => "update world set randomnumber = $2 where id = $1",
    "fortunes" => "select id, message from fortune"
  }.freeze
  ADDED = [0, "Additional fortune added at request time."].freeze
  PAGE = ERB.new(<<~HTML, trim_mode: "<>").freeze
    <!DOCTYPE html>
    <html><head><title>Fortunes</title></head><body><table>
    <tr><th>id</th><th>message</th></tr>
    <% rows.each do |id, message| %>
    <tr><td><%= id %></td><td><%= ERB::Util.html_escape(message) %></td></tr>
    <% end %>
    </table></body></html>
  HTML

  class << self
    # All connections are made before the first request.
    #
    # @param url [String] of the database
    # @param size [Integer]
    # @return [void]
    def connect(url, size)
      @idle = Thread::Queue.new
      size.times do
        connection = PG.connect(url)
        connection.type_map_for_results = PG::BasicTypeMapForResults.new(connection)
        STATEMENTS.each { |name, sql| connection.prepare(name, sql) }
        @idle << connection
      end
    end

    # @return [Hash]
    def message = { message: HELLO }

    # @return [Hash]
    def world = with { |connection| find(connection, rand(IDS)) }

    # @param text [String, nil] the parameter of the request
    # @return [Array<Hash>]
    def worlds(text)
      with { |connection| some(text).map { |id| find(connection, id) } }
    end

    # In the order of their numbers, so that no two requests wait for each other's rows.
    #
    # @param text [String, nil] the parameter of the request
    # @return [Array<Hash>] as they are now
    def updated(text)
      with do |connection|
        some(text).sort.map do |id|
          row = find(connection, id)
          row[:randomNumber] = rand(IDS)
          connection.exec_prepared("update", row.values).clear
          row
        end
      end
    end

    # @return [String] HTML
    def fortunes
      rows = with { |connection| connection.exec_prepared("fortunes").values }
      page([*rows, ADDED].sort_by(&:last))
    end

    PAGE.def_method(self, "page(rows)")

    private

    def some(text) = Array.new(text.to_i.clamp(QUERIES)) { rand(IDS) }

    def find(connection, id)
      id, number = connection.exec_prepared("world", [id]).values.first
      { id: id, randomNumber: number }
    end

    def with
      connection = @idle.pop
      yield connection
    ensure
      @idle << connection if connection
    end
  end
  connect(ENV.fetch("BENCH_DATABASE"), Integer(ENV.fetch("BENCH_POOL"))) if ENV["BENCH_DATABASE"]
end
