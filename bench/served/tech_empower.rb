# frozen_string_literal: true

require "erb"
require "json"
require "pg"
require "time"
require_relative "pool"

# TechEmpower's six pages, the same text for every server and framework. They ask the database with
# prepared statements, over plain connections.
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
    # @param url [String] of the database
    # @param size [Integer] how many connections each process makes
    # @return [void]
    def use(url, size)
      @pool = Pool.new(size) do
        connection = PG.connect(url)
        connection.type_map_for_results = PG::BasicTypeMapForResults.new(connection)
        STATEMENTS.each { |name, sql| connection.prepare(name, sql) }
        connection
      end
    end

    # @return [Hash]
    def message = { message: HELLO }

    # @return [Hash]
    def world = @pool.with { |connection| find(connection, rand(IDS)) }

    # @param text [String, nil] the parameter of the request
    # @return [Array<Hash>]
    def worlds(text)
      @pool.with { |connection| some(text).map { |id| find(connection, id) } }
    end

    # In the order of their numbers, so that no two requests wait for each other's rows.
    #
    # @param text [String, nil] the parameter of the request
    # @return [Array<Hash>] as they are now
    def updated(text)
      @pool.with do |connection|
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
      rows = @pool.with { |connection| connection.exec_prepared("fortunes").values }
      page([*rows, ADDED].sort_by(&:last))
    end

    PAGE.def_method(self, "page(rows)")

    private

    def some(text) = Array.new(text.to_i.clamp(QUERIES)) { rand(IDS) }

    def find(connection, id)
      id, number = connection.exec_prepared("world", [id]).values.first
      { id: id, randomNumber: number }
    end
  end
  use(ENV.fetch("BENCH_DATABASE"), Integer(ENV.fetch("BENCH_POOL"))) if ENV["BENCH_DATABASE"]
end
