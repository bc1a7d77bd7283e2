# frozen_string_literal: true

require_relative "program"
require "neverblock"
require_relative "../support/program"

# `nb serve --blocking`: each process lists what waited outside its loop.
class ServerBlockingTest < Minitest::Test
  include ServerProgram

  CALL = /^ +\d+\.\d{2} ms  longest +\d+\.\d\d ms +2 times  .*ru:2:in .*\(Kernel#sleep\)$/.freeze

  def setup
    super
    File.write("#{@dir}/config.ru", <<~'RUBY')
      run lambda { |env|
        Fiber.new(blocking: true) { sleep 0.02 }.resume if env["PATH_INFO"] == "/blocks"
        sleep 0.01
        [200, {"content-type" => "text/plain"}, [Process.pid.to_s]]
      }
    RUBY
  end

  def skip_without = NB::BlockingCalls.available? || skip("Ruby 3.1 does not tell")

  def listed = log.scan(/^Calls of pid (\d+) that waited.*\n((?: .*\n)+)/)

  [["--blocking"], ["--blocking", "-w", "1"]].each do |flags|
    define_method("test_lists_at_PWR_and_at_the_end_#{flags.join("_")}") do
      skip_without
      start(*flags)
      pid = get("/")
      2.times { get("/blocks") }
      Process.kill("PWR", @pid)
      eventually { listed.size == 1 }
      assert_predicate finish, :success?
      assert_equal [pid.to_s] * 2, listed.map(&:first)
      listed.each { |_, calls| assert_match CALL, calls }
    end
  end

  def test_a_word_of_the_configuration
    skip_without
    start(config: "blocking")
    pid = get("/")
    assert_predicate finish, :success?
    assert_match(/^(No call|Calls) of pid #{pid} /, log)
  end

  def test_where_ruby_does_not_tell_it_is_a_sentence
    skip "this Ruby tells" if NB::BlockingCalls.available?
    _, err, status = Program.nb("serve", "--blocking", "#{@dir}/config.ru")
    assert_match(/\Anb serve: --blocking: the list .* needs Ruby 3\.2 or later: this is 3\.1/, err)
    assert_equal 2, status.exitstatus
  end

  def test_without_it_nothing_is_listed
    start
    get("/blocks")
    Process.kill("PWR", @pid)
    finish
    refute_includes log, "outside the loop"
  end
end
