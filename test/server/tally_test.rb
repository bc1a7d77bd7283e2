# frozen_string_literal: true

require_relative "program"
require "open3"
require "tempfile"
require "neverblock/server/launcher"

# What a master adds up over generations of workers and masters.
class ServerTallyTest < Minitest::Test
  # As a worker reports: 30 pools of its own, and the rest.
  REPORT = <<~'RUBY'
    require "neverblock/server/launcher"
    Report = Struct.new(:index, :metrics) do
      def pid = 4711
      def ready? = true
      def silent_for = 0.0
      def ios = []
      def inheritance = "1:0:0:1"
    end

    def report(generation, index = 0)
      names = [*(0...30).map { |i| "pool #{i} of generation #{generation} #{"x" * 60}"[0, 60] }, "other"]
      counts = names.to_h { |name| [name.to_sym, 1] }
      Report.new(index, {nb_http_requests: {"2xx": 1}, nb_pool_waits: counts,
                         nb_pool_wait_seconds: counts.transform_values(&:to_f), nb_pool_timeouts: counts})
    end
  RUBY
  eval(REPORT) # rubocop:disable Security/Eval, Style/EvalWithLocation -- a program runs it, too

  def generation(tally, number)
    worker = report(number)
    tally.ended(worker, failed: false) { nil }
    found = tally.samples(wanted: 1, ready: true) { [worker] }
    [found[:nb_pool_waits], NB::Server::Exposition.new("text/plain").text(found).bytesize]
  end

  # What Prometheus keeps does not grow with each restart, and no total falls.
  def test_names_of_pools_are_bounded_over_generations
    tally = NB::Server::Tally.new
    sizes = (1..40).map do |number|
      waits, size = generation(tally, number)
      assert_equal 31 * (number + 1), waits.sum(&:last)
      assert_operator waits.size, :<=, 51
      size
    end
    assert_in_delta sizes[5], sizes.last, 1000
  end

  # More than one variable of the environment takes.
  PROGRAM = <<~'RUBY'
    require "json" # as a master has
    require "tempfile"
    handover = NB::Server::Handover.new(ENV)
    tally = handover.tally
    if ENV["AGAIN"]
      found = tally.samples(wanted: 1, ready: true) { [] }
      puts found[:nb_http_requests].to_a.sum(&:last), found[:nb_pool_waits].to_a.sum(&:last)
    else
      40.times { |index| tally.ended(report(1, index), failed: false) { nil } }
      puts tally.to_json([]).bytesize > 140_000
      $stdout.flush
      ENV["AGAIN"] = "1"
      server = Struct.new(:listener_fds).new({})
      NB::Server::Handover.execute(server, [], [], tally, nil)
    end
  RUBY

  def test_a_new_master_gets_all_counters_however_many_there_are
    assert_equal "true\n40\n1240\n", replaced(PROGRAM)
  end

  # USR2 would end the cluster, only to save its counters.
  def test_a_master_without_a_temporary_folder_is_replaced_all_the_same
    assert_equal "true\n0\n0\n", replaced(<<~RUBY)
      require "tmpdir"
      def Dir.tmpdir = raise(ArgumentError, "could not find a temporary directory")
      #{PROGRAM}
    RUBY
  end

  # @return [String] what the program says, and its successor
  def replaced(program)
    Dir.mktmpdir do |folder|
      File.write("#{folder}/master.rb", REPORT + program)
      out, status = Open3.capture2e(RbConfig.ruby, *$LOAD_PATH.map { |path| "-I#{path}" },
        "#{folder}/master.rb")
      assert_predicate status, :success?, out
      return out
    end
  end

  # A variable that somebody else has set, or that an older version has left there.
  def test_a_master_begins_at_zero_where_the_counters_are_none
    IO.pipe do |reader, writer|
      Tempfile.create do |file|
        file << "{}}"
        file.flush
        ["no number", "70000", reader.fileno.to_s, file.fileno.to_s].each do |fd|
          handover = NB::Server::Handover.new({"NB_TALLY_FD" => fd})
          found = handover.tally.samples(wanted: 1, ready: true) { [] }
          assert_equal [[{}, 0]], found[:nb_workers_started]
        end
      end
      writer.write("x")
      assert_equal "x", reader.readpartial(1) # it was not closed
    end
  end

  # The master before it had read the beginning.
  def test_the_rest_of_a_report_does_not_end_a_new_master
    reader, writer = IO.pipe
    worker = NB::Server::WorkerProcess.new(0, Process.pid, reader, ready: true)
    ['"requests":3}}', "}", ""].each do |rest|
      writer.write("#{rest}\n")
      worker.read
      assert_predicate worker, :ready?
    end
    writer.write("#{JSON.generate({ready: true, requests: 4})}\n")
    worker.read
    assert_equal 4, worker.to_h[:requests]
  ensure
    [reader, writer].each(&:close)
  end
end
