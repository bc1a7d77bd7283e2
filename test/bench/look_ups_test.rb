# frozen_string_literal: true

require_relative "helper"
require_relative "../support/databases"
require_relative "../../bench/tables/shared/percentiles"
require_relative "../../bench/frame/workload"
require_relative "../../bench/workloads/apache_bench"
require_relative "../../bench/workloads/rails"

# What ab says of a page that asks a database: I2, I3 and the table of E4 that ab asks.
class BenchLookUpsTest < Minitest::Test
  include BenchHelper

  SHARES = Bench::AB_SHARES.keys.freeze
  GEMS = { "mysql2" => "mysql2", "trilogy" => "trilogy", "redis" => "redis-client",
           "mongo" => "mongo" }.freeze
  # As ab of Apache 2.4 prints it.
  PRINTED = <<~TEXT
    Time taken for tests:   9.877 seconds
    Failed requests:        3
    Requests per second:    1012.44 [#/sec] (mean)

    Percentage of the requests served within a certain time (ms)
      50%   5012
      66%   6487
      75%   7330
      80%   7792
      90%   8708
      95%   9157
      98%   9446
      99%   9542
     100%   9723 (longest request)
  TEXT

  def test_all_that_ab_prints_is_read
    found = ab(PRINTED)

    assert_equal [1012.44, 3, 9.877], found.values_at(:rate, :failed, :elapsed)
    assert_equal [5012, 6487, 7330, 7792, 8708, 9157, 9446, 9542, 9723],
                 found[:within].transform_keys(&:to_s).values_at(*SHARES)
    assert_equal PRINTED, found[:output]
  end

  def test_an_ab_that_gives_up_says_so
    error = assert_raises(RuntimeError) { ab("apr_socket_recv: Connection refused (111)") }
    assert_equal "ab: apr_socket_recv: Connection refused (111)", error.message

    error = assert_raises(RuntimeError) { ab("Benchmarking\n\nTimeout\nTotal of 9 requests done") }
    assert_equal "ab: Timeout; Total of 9 requests done", error.message
  end

  # Of each driver the server of ours, and once the stack of the article.
  [%w[i2 mysql2 mariadb nb_server], %w[i2 mysql2 mariadb thin_em],
   %w[i2 trilogy mariadb nb_server], %w[i3 redis redis nb_server],
   %w[i3 mongo redis nb_server]].each do |words|
    id, store, database, server = words
    define_method("test_#{id}_counts_collections_objects_and_shares_of_#{server}_#{store}") do
      needs(server == "thin_em" ? "thin" : GEMS.fetch(store))
      port = Databases.public_send(database).port
      sample = cell(id, { runtime: server, store: store, clients: 40, warm_up: 40,
                          load_cores: [0] }, port: port)
      numbers = sample["metrics"]

      assert_equal [nil, 0, 40], sample.values_at("failure", "errors", "operations"), sample.inspect
      SHARES.each { |name| assert_kind_of Integer, numbers[name], name }
      assert_operator numbers["p50_ms"], :<=, numbers["longest_ms"]
      assert_operator numbers["gc_count"], :>=, 0
      assert_operator numbers["gc_ms"], :>=, 0
      # Three queries are a few dozens; the mongo gem makes many more.
      assert_includes 1..(store == "mongo" ? 5_000 : 400), numbers["objects_per_op"].round
      assert_operator numbers["listen_drops"], :>=, numbers["listen_overflows"]
      assert_match(/This is ApacheBench/, sample["output"])
    end
  end

  # bson loads it, and names it nowhere: in a home with nothing else, mongo did not load.
  def test_i3_brings_what_bson_does_not
    assert_includes Bench.tables["i3"].gems, "bigdecimal"
  end

  # A listener lets in one more than its backlog; the SYNs beyond it are dropped.
  def test_connections_that_a_full_listener_drops_are_counted
    server = TCPServer.new("127.0.0.1", 0)
    server.listen(1)
    clients = []
    answer, dropped = Bench::Workloads::KernelDrops.count do
      4.times do
        clients << Socket.new(:INET, :STREAM)
        clients.last.connect_nonblock(server.local_address, exception: false)
      end
      :asked
    end

    assert_equal :asked, answer
    assert_operator dropped[:listen_overflows], :>=, 2
    assert_operator dropped[:listen_drops], :>=, dropped[:listen_overflows]
  ensure
    [server, *clients].compact.each(&:close)
  end

  def test_a_kernel_that_counts_no_drops_gives_no_number
    assert_empty Bench::Workloads::KernelDrops.read("")
    assert_equal({ listen_overflows: 3, listen_drops: 4 }, Bench::Workloads::KernelDrops.read(
      "IpExt: A\nIpExt: 1\nTcpExt: SyncookiesSent ListenOverflows ListenDrops\nTcpExt: 0 3 4\n"
    ))
  end

  # Of whom each asks three times; the server is ours.
  %w[c ab].each do |load|
    define_method("test_e4_is_asked_by_#{load}") do
      skip "Rails 8.1 needs Ruby 3.2" if RUBY_VERSION < "3.2"
      sample = cell("e4_ab", { server: "nb", load: load, clients: 10, requests: 30, warm_up: 20 })

      assert_equal [nil, 0, 30], sample.values_at("failure", "errors", "operations"), sample.inspect
      SHARES.each { |name| assert_operator sample["metrics"][name], :>=, 0, name }
      assert_equal load == "ab", sample.key?("output")
    end
  end

  # A server of whom not one answer came made the sample fail, as its CPU time had no divisor.
  def test_a_sample_without_an_answer_says_so
    sample = without_answers(seconds: 1, clients: 1_000).measure_and_tell

    assert_equal 0, sample[:operations]
    assert_equal "no answer within 5.0 s: too busy", sample[:first_error]
    assert_operator sample[:errors], :>=, 1
    refute sample[:metrics].key?(:cpu_us_per_op)
  end

  Silent = Struct.new(:cpu, :memory_mb, :log)

  def needs(gem)
    Gem::Specification.find_by_name(gem)
  rescue Gem::MissingSpecError
    skip "no gem #{gem}"
  end

  def without_answers(seconds:, clients:)
    workload = Class.new(Bench::Workloads::Rails) do
      def load(**)
        { "answers" => 0, "errors" => 0, "elapsed" => duration }
      end

      def measure_and_tell = measure.merge(metrics: @metrics, errors: @errors,
                                           first_error: @first_error)
    end
    params = Bench::Workloads::Rails::DEFAULTS.merge(clients: clients)
    workload.new(nil, params, seconds).tap do |one|
      one.instance_variable_set(:@server, Silent.new(0.0, 1.0, "too busy"))
    end
  end

  def ab(text)
    Dir.mktmpdir do |folder|
      program = File.join(folder, "ab")
      File.write(program, "#!/bin/sh\ncat <<'TEXT'\n#{text.chomp}\nTEXT\n")
      File.chmod(0o755, program)
      path = ENV.fetch("PATH")
      ENV["PATH"] = "#{folder}:#{path}"
      Bench::Workloads::ApacheBench.run("http://127.0.0.1:1/", requests: 1, at_once: 1)
    ensure
      ENV["PATH"] = path if path
    end
  end
end
