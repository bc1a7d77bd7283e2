# frozen_string_literal: true

require_relative "helper"
require "minitest/mock"
require "stringio"
require_relative "../support/leaks"
require_relative "../support/missing"
require_relative "../support/timing"

# The whole way with real cells: processes, JSON, JSONL, figures.
class BenchSessionTest < Minitest::Test
  def quiet = Bench::Progress.new(StringIO.new)
  def ruby = @ruby ||= Bench::RubyTarget.new

  def table(workload, runtimes: %w[threads], patience: 20, compare: nil, **base)
    Bench::TableBuilder.build("t9") do
      question "?"
      source article: "A", author: "B", year: 2008
      differs "-"
      axis :runtime, runtimes
      axis :jobs, [50], title: "jobs"
      workload workload, **base
      patience patience
      view "T9", title: "Rate", unit: "/s", rows: :runtime, columns: :jobs, compare: compare
    end
  end

  def measure(table, seconds: 0.01, rubies: [ruby], **options)
    Dir.mktmpdir do |directory|
      session = Bench::Session.new(tables: [table], rubies: rubies, pairs: 1,
                                   out: directory, progress: quiet, seconds: seconds, busy: true,
                                   **options)
      yield session.run.first, session
    end
  end

  def test_a_cell_is_measured_in_a_process_of_its_own
    measure(table("churn", runtimes: %w[blocking threads])) do |result, session|
      figure = result.figure({ runtime: "threads", jobs: 50 })

      assert_operator figure.value, :>, 0
      assert_equal 0, figure.errors
      assert_equal 1, result.grids.size
      lines = File.readlines(File.join(session.out, "t9.jsonl")).map { |line| JSON.parse(line) }
      assert_equal %w[session run run], lines.map { |line| line["kind"] }
      assert_equal Etc.nprocessors, lines.first["machine"]["cores"]
    end
  end

  %w[tcp_echo http_server].each do |workload|
    define_method("test_#{workload}_has_no_errors_under_threads") do
      small = { clients: 2, messages: 3, requests: 3 }
      measure(table(workload, **small)) do |result, _session|
        assert_equal 0, result.figure({ runtime: "threads", jobs: 50 }).errors
        assert_empty result.failures
      end
    end
  end

  %w[tcp_echo http_server_external].each do |workload|
    define_method("test_#{workload}_runs_in_plain_c_with_its_own_arguments") do
      measure(table(workload, runtimes: %w[c], clients: 3), seconds: 0.05) do |result, _session|
        assert_empty result.failures
        assert_operator result.figure({ runtime: "c", jobs: 50 }).value, :>, 0
      end
    end
  end

  # As on a machine that stops the process for as long as the sample is.
  def test_a_sample_has_a_round_however_short_it_is
    measure(table("churn"), seconds: 1e-9) do |result, _session|
      assert_empty result.failures
      assert_operator result.figure({ runtime: "threads", jobs: 50 }).value, :>, 0
    end
  end

  def test_a_workload_without_a_rival_in_c_says_so
    measure(table("churn", runtimes: %w[c])) do |result, _session|
      assert_match(/Churn has no rival in C/, result.failures.first)
    end
  end

  def test_a_web_server_is_loaded_counted_and_ended
    Bench::Runtime.path("wrk") || missing("wrk")
    before = children
    one = table("served", runtimes: %w[c_server], kind: "hello", connections: 3)
    measure(one, seconds: 1) do |result, _session|
      figure = result.figure({ runtime: "c_server", jobs: 50 })

      assert_equal [], result.failures + result.complaints
      assert_operator figure.value, :>, 100
      assert_in_delta figure.cpu, 0.5, 0.499
      assert_equal before, children
    end
  end

  def test_system_calls_of_a_server_are_counted
    %w[wrk strace].each { |name| Bench::Runtime.path(name) || missing(name) }
    one = table("request_cost", runtimes: %w[c_server], headers: 10, requests: 50)
    measure(one) do |result, _session|
      cell = { runtime: "c_server", jobs: 50 }

      assert_equal [], result.failures + result.complaints
      # epoll_wait, read and write; with 64 connections one epoll_wait serves several.
      assert_in_delta 3.0, result.figure(cell, "syscalls_alone").value, 0.5
      assert_in_delta 2.2, result.figure(cell, "syscalls_busy").value, 0.8
    end
  end

  def test_a_cell_that_fails_says_why
    measure(table("no_such")) do |result, _session|
      assert_match(/exit 1: .*cannot load such file.*no_such/, result.failures.first)
    end
  end

  # What the process said may be the reason.
  def test_a_sample_that_is_late_says_what_its_process_has_said
    script = 'warn "a warning: x", "#{ARGV[0]}/app.rb:1: no such file", "more"; sleep'
    command = [RbConfig.ruby, "--disable=gems", "-e", script, Bench::ROOT]
    cell = Bench::Cell.new(command, {}, patience: 1)
    cell.turn
    assert_equal "no result within 1 s: app.rb:1: no such file", cell.sample["failure"]
  ensure
    cell.stop
  end

  def test_a_cell_that_hangs_is_given_up
    started = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    measure(table("idle", patience: 1, waiting: 1), seconds: 60) do |result, _session|
      assert_match(/no result within 1 s/, result.failures.first)
    end

    assert_in_time Process.clock_gettime(Process::CLOCK_MONOTONIC) - started, 10
  end

  def test_an_interrupt_keeps_what_is_done_and_leaves_no_process
    Dir.mktmpdir do |directory|
      before = children
      session = Bench::Session.new(tables: [table("churn")], rubies: [ruby], pairs: 1_000,
                                   seconds: 0.5, out: directory, progress: quiet, busy: true)
      interrupt_after(File.join(directory, "t9.jsonl"), lines: 2)
      result = session.run.first

      assert session.interrupted
      assert_includes 1..3, result.runs.size
      assert_equal before, children
    end
  end

  def test_what_does_not_fit_the_budget_is_left_out_and_named
    measure(table("churn"), pairs: 500, budget: 400) do |result, session|
      assert_equal ["t9: threads, 50"], session.left
      assert_empty result.runs
    end
  end

  # The first session on a machine installs all the others' gems.
  def test_what_is_prepared_takes_nothing_from_the_budget
    slow = Class.new(Bench::Session) do
      def prepare = sleep(1) && super
    end
    Dir.mktmpdir do |directory|
      session = slow.new(tables: [table("churn")], rubies: [ruby], seconds: 0.01, pairs: 1,
                         budget: 1.5, out: directory, progress: quiet, busy: true)
      assert_equal [[1], []], [session.run.map { |result| result.runs.size }, session.left]
    end
  end

  def test_a_session_goes_on_where_the_last_one_was_ended
    Dir.mktmpdir do |directory|
      options = { tables: [table("churn")], rubies: [ruby], seconds: 0.01, out: directory,
                  progress: quiet, busy: true }
      Bench::Session.new(pairs: 2, **options).run
      session = Bench::Session.new(pairs: 3, resume: true, **options)
      result = session.run.first

      assert_empty session.begun_anew
      assert_equal [0, 1, 2], result.runs.map(&:pass)
      assert_equal [0, 0, 1], result.runs.map(&:session)
    end
  end

  # What cells print, without the cells: threads are as fast as nothing else, and nobody can tell
  # the others apart.
  class Numbers
    def initialize(*) = @turn = 0
    def stop; end

    def call(_table, row, _seconds)
      row.map do |params|
        @turn += 1
        value = params[:runtime] == "threads" ? 1000 : 10 + (@turn % 3)
        { "value" => value, "errors" => 0, "wall" => 0.0 }
      end
    end
  end

  def test_pairs_are_taken_until_it_is_decided_or_the_limit_is_reached
    three = table("churn", runtimes: %w[blocking threads fibers], compare: "blocking")
    counts = nil
    numbers = Numbers.new
    Bench::Launcher.stub(:new, ->(*, **) { numbers }) do
      measure(three, pairs: nil) do |result, _session|
        counts = result.runs.reject(&:again?).map { |run| run.params[:runtime] }.tally
      end
    end

    assert_equal({ "blocking" => 20, "threads" => 6, "fibers" => 20 }, counts)
  end

  def children = Leaks.children.sort

  def interrupt_after(path, lines:)
    main = Thread.current
    Thread.new do
      sleep(0.01) until File.exist?(path) && File.readlines(path).size >= lines
      main.raise(Interrupt)
    end
  end

  def test_a_runtime_that_this_ruby_cannot_run_is_named
    Bench.runtime("future") { needs_ruby "99.0" }
    measure(table("churn", runtimes: %w[future threads])) do |result, _session|
      assert_equal({ "future" => "needs Ruby 99.0 or newer" }, result.missing)
    end
  ensure
    Bench.runtimes.delete("future")
  end

  def test_a_ruby_without_our_extension_is_named
    none = ruby.dup
    none.define_singleton_method(:complaint) { |_script| "cannot load such file" }
    mine = table("churn")
    measure(mine, rubies: [none]) { |result, _session| assert_empty result.missing }
    mine.instance_variable_set(:@ours, true)
    measure(mine, rubies: [none]) do |result, _session|
      assert_equal "the extension does not load (bin/setup compiles it): cannot load such file",
                   result.missing.fetch("threads")
      assert_empty result.runs
      assert_match(/no threads: the extension/, printed(result))
      refute_match(/T9/, Bench::Report::Markdown.new([result]).to_s)
      assert_match(/no threads: the extension/, Bench::Report::Page.new([result]).to_s)
    end
  end

  def printed(result)
    StringIO.new.tap { |out| Bench::Report::Terminal.new(out, color: false).print([result]) }.string
  end

  def test_tables_that_load_our_code_say_so
    loads = Dir[File.join(Bench::HOME, "workloads", "*.rb")].select do |path|
      File.read(path).match?(%r{^require "neverblock/|^require_relative "buffers"})
    end
    names = loads.map { |path| File.basename(path, ".rb") }
    found = Bench.tables.values.select { |one| names.include?(one.workload) }

    assert_equal %w[buffers http_clients stock_downloads], names.sort
    assert(found.any? && found.all?(&:ours?))
  end

  def test_a_ruby_that_is_none_is_refused
    error = assert_raises(Bench::Error) { Bench::RubyTarget.new("/no/ruby") }

    assert_match(/does not run/, error.message)
  end

  def test_wrong_numbers_are_refused
    assert_raises(Bench::Misuse) { Bench::Session.new(tables: [], rubies: [ruby], pairs: 0) }
    assert_raises(Bench::Misuse) { Bench::Session.new(tables: [], rubies: [ruby], seconds: 0) }
    assert_raises(Bench::Misuse) { Bench::Session.new(tables: [], rubies: [ruby], budget: -1) }
    assert_raises(Bench::Misuse) { Bench::Session.new(tables: [], rubies: [ruby], maps: 0) }
    assert_raises(Bench::Misuse) { Bench::Session.new(tables: [], rubies: [ruby], runs: 0) }
    error = assert_raises(Bench::Misuse) { measure(table("churn"), runs: 100) }
    assert_equal "runs: only f1 and f2 have them, not t9", error.message
  end

  def test_as_many_runs_as_asked_for
    sums = table("sums", workers: 2, iterations: 1_000, runs: 10)
    { nil => 10, 3 => 3 }.each do |runs, count|
      measure(sums, runs: runs) do |result, _session|
        assert_equal [count], result.runs.map { |run| run.sample["operations"] }
        assert_equal({ "runs" => runs }.compact, result.session["options"].slice("runs"))
      end
    end
  end
end
