# frozen_string_literal: true

require_relative "helper"
require_relative "../support/databases"
require_relative "../../bench/frame/workload"
require_relative "../../bench/workloads/tech_empower"

# TechEmpower's pages are served right, and a wrong one is seen.
class BenchTechEmpowerTest < Minitest::Test
  include BenchHelper

  Workload = Bench::Workloads::TechEmpower
  PAGES = { "t1" => "plaintext", "t2" => "json", "t3" => "db", "t4" => "queries",
            "t5" => "fortunes", "t6" => "updates" }.freeze
  # What a server might answer whose page is not right.
  WRONG = {
    "plaintext" => ["hello, World!", /body of "hello/],
    "json" => ['{"message": "Hello, World!"}', /body of/],
    "db" => ['{"id":1,"randomNumber":10001}', /row 1 holds 7920, not 10001/],
    "queries" => ['[{"id":1,"randomNumber":7920}]', /not 3 rows/],
    "fortunes" => ["<td>3</td><td><script>", /body of "<td>3/],
    "updates" => ['[{"id":0,"randomNumber":1}]', /row 0 holds nil/]
  }.freeze

  # wrk says 0 where its own correction has lost count.
  def test_a_percentile_that_is_not_known_is_no_number
    told = Workload.allocate.send(:percentiles, { "p50" => 1.5, "p99" => 0.0 })
    assert_equal({ p50_ms: 1.5, p99_ms: nil }, told)
  end

  PAGES.each do |id, page|
    define_method("test_#{page}_is_served_right") do
      params = { runtime: "nb_server", connections: 4, queries: 3, workers: 1 }
      port = Databases.postgresql.port if Bench.tables[id].servers.any?
      sample = cell(id, params, port: port)

      assert_nil sample["failure"]
      assert_equal 0, sample["errors"], sample["first_error"]
      assert_operator sample["operations"], :>, 0
      assert_operator sample["metrics"]["cpu_us_per_op"], :>, 0
      assert_includes 0.001..100.0, sample["metrics"]["share_percent"]
    end

    %w[puma puma_roda nb_roda nb_rails].each do |id_of_runtime|
      next unless Bench.tables[id].axis(:runtime).values.include?(id_of_runtime)

      define_method("test_#{page}_is_served_right_by_#{id_of_runtime}") do
        skip "Rails 8.1 needs Ruby 3.2" if id_of_runtime == "nb_rails" && RUBY_VERSION < "3.2"
        params = { runtime: id_of_runtime, connections: 4, queries: 3, workers: 1 }
        port = Databases.postgresql.port if Bench.tables[id].servers.any?
        sample = cell(id, params, port: port)

        assert_equal [nil, 0], sample.values_at("failure", "errors"), sample["first_error"]
        assert_operator sample["operations"], :>, 0
      end
    end

    next unless %w[db updates].include?(page)

    # They fork after they have loaded the application.
    %w[nb_server puma].each do |runtime|
      define_method("test_#{page}_is_served_right_by_two_workers_of_#{runtime}") do
        params = { runtime: runtime, connections: 16, queries: 3, workers: 2 }
        sample = cell(id, params, port: Databases.postgresql.port)

        assert_equal [nil, 0], sample.values_at("failure", "errors"), sample["first_error"]
        assert_operator sample["operations"], :>, 0
      end
    end
  end

  PAGES.each_value do |page|
    define_method("test_#{page}_that_is_wrong_is_seen") do
      body, complaint = WRONG.fetch(page)
      errors, first = look_at(page, body)

      assert_operator errors, :>, 0
      assert_match(complaint, first)
    end
  end

  def test_a_head_without_its_headers_is_seen
    errors, first = look_at("plaintext", "Hello, World!", headers: { "content-type" => "text/css" })

    assert_equal 2, errors
    assert_match(/type of text.css/, first)
  end

  def test_a_right_answer_is_no_error
    assert_equal [0, nil], look_at("plaintext", "Hello, World!")
    assert_equal [0, nil], look_at("db", '{"id":1,"randomNumber":7920}')
  end

  Answer = Struct.new(:code, :body, :headers) do
    def [](name) = headers[name]
  end

  def url = "postgresql://postgres@127.0.0.1:#{Databases.postgresql.port}/nb"

  # @return [Array] how many errors, and the first
  def look_at(page, body, headers: nil)
    workload = Workload.new(nil, { kind: page }, 1)
    headers ||= { "content-type" => Workload::KINDS.dig(page, :type), "date" => "x",
                  "server" => "x" }
    store = Workload::Store.new(url)
    workload.instance_variable_set(:@store, store)
    workload.send(:look_at, Answer.new("200", body, headers), page == "updates" ? 1 : 3)
    %i[@errors @first_error].map { |name| workload.instance_variable_get(name) }
  ensure
    store&.close
  end
end
