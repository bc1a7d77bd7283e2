# frozen_string_literal: true

require "minitest/autorun"
require "open3"
require "socket"
require_relative "../support/databases"
require_relative "../support/ports"
require_relative "../support/program"
require_relative "../support/timing"

# The programs of the articles run, and take as long as they say.
class LegacyExamplesTest < Minitest::Test
  TOOK = /(?<=took )\d+\.\d+(?= s)/

  def test_the_client_of_2008_makes_twenty_requests_of_a_second_in_one
    with_server do |port|
      line = run_example("client", "PORT" => port.to_s)
      assert_equal "20 answers (done), took N s\n", line.gsub(TOOK, "N")
      assert_between 1, 10, Float(line[TOOK])
    end
  end

  # The article's 20 take 20 s.
  def test_the_blocking_client_of_2008_makes_one_after_the_other
    with_server do |port|
      line = run_example("blocking_client", { "PORT" => port.to_s }, "3")
      assert_equal "3 answers (done), took N s\n", line.gsub(TOOK, "N")
      assert_between 3, 15, Float(line[TOOK])
    end
  end

  def test_long_and_short_queries_by_the_command_line_of_2008
    line = run_example("long_and_short", postgresql, "4", "5")
    assert_equal "24 queries, blocking N s, nonblocking N s, advantage N %\n",
      line.gsub(/-?\d+\.\d\d/, "N")
  end

  # One sentence, not a backtrace.
  def test_a_command_line_that_is_wrong_is_told_what_is_right
    none = { "PGHOST" => "x", "PGUSER" => "x", "PGDATABASE" => "x" }
    { "cpu_bound_threads" => ["", "two 50000", "0 50000", "2 0", "2"],
      "cpu_bound_processes" => ["", "two 50000", "0 50000", "2 many"],
      "io_bound_threads" => ["", "2 3", "two 3 http://localhost/", "0 1 http://a/", "2 3 file"],
      "blocking_client" => %w[many 0], "long_and_short" => ["", "10", "ten 2", "10 0"] }
      .each do |name, lines|
      lines.each do |words|
        errors, status = Open3.capture2e(none, *Program::RUBY, "-W0", "-I#{Program::ROOT}/lib",
                                         path(name), *words.split)
        assert_equal [1, "usage: #{name}.rb"], [status.exitstatus, errors[/\Ausage: \S+/]], words
        assert_equal 1, errors.lines.size, errors
      end
    end
  end

  def test_the_postgres_program_of_2008_runs_without_a_loop
    assert_equal "500 rows, and a blocking one: blocking\n", run_example("postgres", postgresql)
  end

  # The calls one by one; and exec, which waits in the loop: one after the other would take 1.5 s.
  def test_the_asynchronous_calls_of_2008
    said = File.read(path("async_postgres"))[/^# Prints:\n((?:#   .*\n)+)/, 1].gsub(/^#   /, "")
    lines = run_example("async_postgres", postgresql)
    assert_equal said.gsub(TOOK, "N"), lines.gsub(TOOK, "N")
    assert_between 0.5, 1.5, Float(lines[TOOK])
  end

  def test_the_programs_that_need_a_database_say_so
    { "postgres" => [], "async_postgres" => [], "long_and_short" => %w[1 2] }.each do |name, words|
      none = { "PGHOST" => nil, "PGUSER" => nil, "PGDATABASE" => nil }
      errors, status = Open3.capture2e(none, RbConfig.ruby, "-I#{Program::ROOT}/lib", path(name),
                                       *words)
      refute_predicate status, :success?
      assert_equal "#{name}.rb: set PGHOST, PGUSER and PGDATABASE: " \
                   "they say where a PostgreSQL is\n", errors
    end
  end

  def test_the_four_forms_of_2014_give_the_same
    said = File.read(path("four_forms"))[/^# Prints:\n((?:#   .*\n)+)/, 1].gsub(/^#   /, "")
    lines = run_example("four_forms")
    assert_equal said.gsub(TOOK, "N"), lines.gsub(TOOK, "N")
    said.scan(TOOK).zip(lines.scan(TOOK)) do |expected, took|
      assert_in_time took.to_f, expected.to_f + 1
    end
  end

  # 2009: the workers share the numbers, and add up to the same; also where they cannot share them
  # evenly.
  %w[cpu_bound_threads cpu_bound_processes].each do |name|
    define_method("test_#{name}") do
      lines = [1, 4, 7].map { |count| run_example(name, {}, count.to_s, "50000").gsub(TOOK, "N") }
      unit = name[/\w+_(\w+)/, 1]
      said = [1, 4, 7].map { |count| "#{count} #{unit} added up to 1250025000, took N s\n" }
      assert_equal said, lines
    end
  end

  def test_io_bound_threads_and_fibers_wait_side_by_side
    with_server do |port|
      [[], %w[fibers]].each do |words|
        line = run_example("io_bound_threads", {}, "20", "40", "http://localhost:#{port}/", *words)
        assert_equal "40 fetches by 20, took N s\n", line.gsub(TOOK, "N")
        assert_between 2, 20, Float(line[TOOK])
      end
    end
  end

  private

  def postgresql
    Databases.there?(:postgresql) || missing("PostgreSQL")
    place = Databases.postgresql
    { "PGHOST" => place.host, "PGPORT" => place.port.to_s, "PGUSER" => place.user,
      "PGPASSWORD" => place.password, "PGDATABASE" => place.database }
  end

  def path(name) = File.join(Program::ROOT, "examples/legacy/#{name}.rb")

  def run_example(name, env = {}, *words)
    out, errors, status = Open3.capture3(env, *Program::RUBY, "-W0", "-Ilib", path(name), *words,
                                         chdir: Program::ROOT)
    assert_predicate status, :success?, errors
    out
  end

  # The article's own server, on a free port instead of 8080.
  def with_server
    port = Ports.free
    code = File.read(path("server")).sub("8080", port.to_s)
    pid = spawn(*Program::RUBY, "-W0", "-e", code)
    500.times do
      break TCPSocket.open("127.0.0.1", port).close
    rescue Errno::ECONNREFUSED
      sleep 0.02
    end
    yield port
  ensure
    Process.kill(:KILL, pid)
    Process.wait(pid)
  end
end
