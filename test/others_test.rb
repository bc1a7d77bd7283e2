# frozen_string_literal: true

require "json"
require "minitest/autorun"
require "net/http"
require "open3"
require "socket"
require "tempfile"
require_relative "../rakelib/others/comparison"
require_relative "../rakelib/others/page"
require_relative "../rakelib/others/reasons"
require_relative "../rakelib/others/suite"
require_relative "../rakelib/others/trial"
require_relative "support/clock"
require_relative "support/ports"

# How `rake others` compares two runs of another project's tests.
class OthersTest < Minitest::Test
  include Clock

  PASSED = ["passed", ""].freeze
  FAILED = ["failed", "Expected 1\nbut was 2"].freeze

  def compare(plain, inside, reasons = {}) = Others::Comparison.new(plain, inside, reasons)

  def test_equal_runs_are_green
    comparison = compare({ "A#a" => PASSED, "A#b" => FAILED }, { "A#a" => PASSED, "A#b" => FAILED })
    assert comparison.green?
    assert_equal 2, comparison.tests
    assert_equal [1, 1], [comparison.plain_failures, comparison.inside_failures]
  end

  def test_a_difference_without_a_reason_is_red
    comparison = compare({ "A#a" => PASSED }, { "A#a" => FAILED })
    refute comparison.green?
    assert_equal ["A#a: passed plain, failed inside, no reason listed. Expected 1"],
                 comparison.complaints
  end

  def test_a_difference_with_a_reason_is_green
    comparison = compare({ "A#a" => PASSED }, { "A#a" => ["hung", ""] }, { "A#a" => "because" })
    assert comparison.green?
    assert_equal ["because"], comparison.differences.map(&:reason)
  end

  def test_a_reason_without_a_difference_is_red
    comparison = compare({ "A#a" => PASSED }, { "A#a" => PASSED }, { "A#a" => "because" })
    refute comparison.green?
    assert_equal ["A#a: a reason is listed, but there is no difference"], comparison.complaints
  end

  def test_a_test_that_fails_now_and_then_need_not
    reasons = { "A#a" => "now and then, plain too" }
    [PASSED, FAILED].each do |fate|
      assert_predicate compare({ "A#a" => PASSED }, { "A#a" => fate }, reasons), :green?
    end
  end

  def test_a_test_that_is_missing_or_skipped_on_one_side_is_a_difference
    plain = { "A#a" => PASSED, "A#b" => PASSED }
    assert_equal %w[A#a A#b], compare(plain, { "A#b" => ["skipped", "no"] }).differences.map(&:test)
    assert_equal %w[A#a A#b], compare({}, plain).differences.map(&:test)
  end

  def test_a_test_that_fails_plain_may_fail_in_another_way_but_not_be_missing
    plain = { "A#a" => FAILED }
    assert compare(plain, { "A#a" => ["hung", ""] }).green?
    refute compare(plain, {}).green?
  end

  def test_no_tests_at_all_are_red
    assert_equal ["no test ran"], compare({}, {}).complaints
    refute compare({}, {}).green?
  end

  def test_the_worst_result_of_a_test_counts
    lines = [%w[start A#a], %w[passed A#a], %w[failed A#a teardown], %w[passed A#a]]
    assert_equal({ "A#a" => %w[failed teardown] }, Others::Trial.fates(lines))
  end

  RUNNER = <<~'RUBY'
    line = ["passed", `ruby -e "print RUBY_VERSION"`, ""]
    File.write(ENV.fetch("OTHERS_RESULTS"), "#{JSON.generate(line)}\n")
  RUBY

  def test_a_suite_that_starts_ruby_by_its_name_finds_the_ruby_that_runs_it
    Dir.mktmpdir do |folder|
      Dir.mkdir("#{folder}/test")
      File.write("#{folder}/test/runner.rb", RUNNER)
      suite = Others::Suite.new("names", nil, nil, :ruby, [])
      assert_equal [RUBY_VERSION], Others::Trial.new(suite, folder, inside: false).run.keys
    end
  end

  def test_reasons_are_of_a_suite_and_of_rubies
    lines = ["# words", "", "x 3.1,3.3 A::B#c: it: is", "x all A#d: so", "y all A#e: no"]
    reasons = Others::Reasons.new(lines.join("\n"))
    assert_equal({ "A::B#c" => "it: is", "A#d" => "so" }, reasons.of("x", "3.1"))
    assert_equal({ "A#d" => "so" }, reasons.of("x", "3.4"))
    assert_raises(ArgumentError) { Others::Reasons.new("x all A#d so") }
  end

  def test_each_listed_reason_names_a_suite_that_exists
    names = Others::RUBIES.keys.flat_map { |api| Others.suites(api).map(&:name) }
    File.foreach(Others::Reasons::FILE).grep_v(/\A(#|$)/).each { |line| assert_includes names, line[/\S+/] }
    Others::Reasons.new
  end

  SPEC = 'RSpec.describe("A") { it("works") { Fiber.current_scheduler or raise } }'
  PASSED_AND_FAILED = {
    "minitest" => ["A#test_a", "-e", <<~'RUBY'],
      require "minitest/autorun"
      class A < Minitest::Test
        def test_a = assert(Fiber.current_scheduler)
      end
    RUBY
    "rspec" => ["A works", "-S", "rspec", "-O", File::NULL, "/dev/stdin"]
  }.freeze

  # Each test runs in a loop where it is asked for, and its fate is written down.
  PASSED_AND_FAILED.each do |framework, (name, *command)|
    define_method(:"test_what_is_recorded_of_#{framework}") do
      fates = [nil, "1"].map do |inside|
        Tempfile.create("results") do |file|
          environment = { "OTHERS_RESULTS" => file.path, "OTHERS_INSIDE" => inside }
          Open3.capture2e(environment, RbConfig.ruby, "-Ilib",
                          "-r./rakelib/others/recorder_#{framework}.rb", *command,
                          stdin_data: SPEC)
          file.each_line.map { |line| JSON.parse(line).first(2) }
        end
      end
      assert_equal [[["start", name], ["failed", name]], [["start", name], ["passed", name]]], fates
    end
  end

  # What redis-client's tests ask of their proxy: a port that leads on, is late, falls silent, is
  # cut off after some bytes, is off and on again.
  def test_the_stand_in_for_toxiproxy
    port = Ports.free
    pid = Process.spawn(RbConfig.ruby, "rakelib/others/toxiproxy.rb", "-port", port.to_s)
    echo = TCPServer.new("127.0.0.1", 0)
    strand = Thread.new { loop { answer(echo.accept) } }
    proxy = create_proxy(port, echo.addr[1])
    assert_equal "hello", exchange(proxy)
    late = toxic(port, "latency", "latency" => 50) { seconds { exchange(proxy) } }
    assert_operator late, :>=, 0.05
    toxic(port, "timeout", "timeout" => 20) { assert_nil exchange(proxy) }
    toxic(port, "limit_data", "bytes" => 2) { assert_equal "he", exchange(proxy) }
    ask(port, Net::HTTP::Post.new("/proxies/echo"), enabled: false)
    assert_raises(Errno::ECONNREFUSED) { exchange(proxy) }
    ask(port, Net::HTTP::Post.new("/proxies/echo"), enabled: true)
    assert_equal "hello", exchange(proxy)
  ensure
    strand&.kill&.join
    echo&.close
    Process.kill(:INT, pid)
    Process.wait(pid)
  end

  # An echo of five bytes.
  def answer(socket)
    socket.write(socket.readpartial(5))
  ensure
    socket.close
  end

  def exchange(port)
    TCPSocket.open("127.0.0.1", port) { |socket| socket.write("hello") && socket.read(5) }
  end

  def create_proxy(port, upstream)
    listen = "127.0.0.1:#{Ports.free}"
    body = [{ name: "echo", listen: listen, upstream: "127.0.0.1:#{upstream}" }]
    begin
      ask(port, Net::HTTP::Post.new("/populate"), body)
    rescue Errno::ECONNREFUSED # it is still starting
      Thread.pass
      retry
    end
    listen[/\d+\z/].to_i
  end

  def toxic(port, type, attributes)
    body = { name: type, type: type, stream: "downstream", attributes: attributes }
    ask(port, Net::HTTP::Post.new("/proxies/echo/toxics"), body)
    yield
  ensure
    ask(port, Net::HTTP::Delete.new("/proxies/echo/toxics/#{type}"))
  end

  def ask(port, request, body = nil)
    request.body = JSON.generate(body) if body
    Net::HTTP.start("127.0.0.1", port) { |http| http.request(request).value }
  end

  def test_the_page_is_made_from_the_results
    assert_equal Others::Page.new.text, File.read("docs/OTHERS.md")
  end
end
