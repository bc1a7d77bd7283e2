# frozen_string_literal: true

# rubocop:disable Layout/LineLength -- rows and expectations, better on one line each

require "minitest/autorun"
require "csv"
require "fileutils"
require "json"
require "rbconfig"
require "socket"
require "tempfile"
require "tmpdir"
require_relative "../support/missing"
require_relative "../support/program"
require_relative "../support/timing"
require_relative "../../lib/neverblock/cli"
require_relative "../../lib/neverblock/cli/rubyhttp"

# `nb rubyhttp`: every way of reading brings every byte, the columns are those of the study.
class RubyhttpTest < Minitest::Test
  LENGTH = 200_000

  # @return [Array<Hash>] rows by column
  def measure(*arguments)
    out, errors, status = Program.nb("rubyhttp", "-l", LENGTH.to_s, *arguments)
    assert_equal ["", 0], [errors, status.exitstatus]
    table = CSV.parse(out, headers: true)
    assert_equal NB::CLI::RubyhttpCell::COLUMNS, table.headers
    table.map(&:to_h)
  end

  CLIENTS = %w[curb http.rb httpx excon patron typhoeus async-http em-http-request curl].freeze
  # Why a client or a world cannot be used here; asked elsewhere, since their gems change Ruby.
  MISSING = Hash.new do |_, name|
    @missing ||= IO.popen([RbConfig.ruby, "-I#{File.expand_path("../../lib", __dir__)}", "-rjson", "-e", <<~'RUBY'], &:read).then { |text| JSON.parse(text) }
      require "neverblock/cli"
      require "neverblock/cli/rubyhttp"
      clients = NB::CLI::RubyhttpClients::NAMES.to_h { |name| [name, NB::CLI::RubyhttpClients.missing(name)] }
      worlds = NB::CLI::RubyhttpCell::WORLDS.keys.to_h { |name| [name, NB::CLI::RubyhttpCell.missing(name)] }
      puts JSON.generate(clients.merge(worlds))
    RUBY
    @missing.fetch(name)
  end

  def test_every_way_brings_the_whole_file
    rows = measure("-S", "dallas,seattle")

    expected = NB::CLI::RubyhttpWays::ALL.keys.product(%w[dallas seattle])
    assert_equal expected, (rows.map { |row| row.values_at("Impl", "Site") })
    rows.each { |row| assert_in_delta LENGTH / 1024.0, row["KBytes Transferred"].to_f, 0.1, row }
  end

  # Splices what is written into a socket, and more, to a file.
  def spliced(*parts, length: parts.sum(&:bytesize), timeout: 5)
    Socket.pair(:UNIX, :STREAM) do |theirs, ours|
      Tempfile.create("nb-splice") do |file|
        writer = Thread.new { parts.each { |part| theirs.write(part) }.then { theirs.close_write if timeout == 5 } }
        moved = NB::CLI::RubyhttpSplice.new(ours, file, timeout: timeout).move(length)
        [moved, File.binread(file.path)]
      ensure
        writer&.join
      end
    end
  end

  def test_splice_moves_every_byte_in_order
    skip MISSING["custom-splice"] if MISSING["custom-splice"]
    parts = [1, 70_000, 3, 600_000].map { |size| Random.bytes(size) }

    assert_equal [parts.join.bytesize, parts.join], spliced(*parts)
    assert_equal [5, "12345"], spliced("1234567", length: 5)
    assert_equal [0, ""], spliced("", length: 0)
  end

  def test_splice_raises_what_net_http_raises
    skip MISSING["custom-splice"] if MISSING["custom-splice"]

    assert_raises(EOFError) { spliced("abc", length: 4) }
    assert_raises(Net::ReadTimeout) { spliced("abc", length: 4, timeout: 0.05) }
    File.open(File::NULL) do |sink| # not open for writing
      Socket.pair(:UNIX, :STREAM) do |theirs, ours|
        theirs.write("abc")
        assert_raises(Errno::EBADF) { NB::CLI::RubyhttpSplice.new(ours, sink).move(3) }
      end
    end
  end

  def test_other_fibers_run_while_splice_waits
    skip MISSING["custom-splice"] if MISSING["custom-splice"]
    order = []
    moved = NB.run do
      Socket.pair(:UNIX, :STREAM) do |theirs, ours|
        File.open(File::NULL, "w") do |sink|
          waits = NB.async { NB::CLI::RubyhttpSplice.new(ours, sink, timeout: 5).move(3).tap { order << :moved } }
          order << :wrote
          theirs.write("abc")
          waits.value
        end
      end
    end

    assert_equal [3, %i[wrote moved]], [moved, order]
  end

  # Its bytes are not seen, so no chunk is counted.
  def test_splice_has_a_length_and_no_chunks
    skip MISSING["custom-splice"] if MISSING["custom-splice"]
    row, = measure("-S", "dallas", "-i", "custom-splice")

    assert_equal ["0", nil, nil], row.values_at("Chunk count", "Mean chunk size", "Max chunk size")
    assert_in_delta LENGTH / 1024.0, row["KBytes Transferred"].to_f, 0.1
  end

  CLIENTS.each do |name|
    define_method("test_#{name}_brings_the_whole_file") do
      skip MISSING[name] if MISSING[name]
      row, = measure("-S", "dallas", "-i", name)

      assert_equal name, row["Impl"]
      assert_in_delta LENGTH / 1024.0, row["KBytes Transferred"].to_f, 0.1
    end
  end

  def test_a_group_is_what_is_installed
    there = (NB::CLI::RubyhttpWays::ALL.keys + CLIENTS).reject { |name| MISSING[name] }

    assert_equal there.sort, measure("-S", "dallas", "-i", "all", "-l", "1k").map { |row| row["Impl"] }.sort
  end

  def test_in_threads_and_fibers
    worlds = %w[blocking thread nb async].reject { |world| MISSING[world] }
    rows = measure("-S", "dallas", "-i", "stock,custom-64kbuffer-direct", "-w", worlds.join(","))

    names = worlds.map { |world| world == "blocking" ? "" : " [#{world}]" }
    assert_equal %w[stock custom-64kbuffer-direct].product(names).map(&:join), (rows.map { |row| row["Impl"] })
    rows.each { |row| assert_in_delta LENGTH / 1024.0, row["KBytes Transferred"].to_f, 0.1, row }
  end

  # A slow site keeps every read waiting, sysread's too.
  def test_a_read_waits_in_every_world
    worlds = %w[blocking thread nb async].reject { |world| MISSING[world] }
    rows = measure("-S", "london", "-i", "custom-1kbuffer-timeout", "-l", "40k", "-w", worlds.join(","))

    assert_equal worlds.size, rows.size
    rows.each { |row| assert_in_delta 40_000 / 1024.0, row["KBytes Transferred"].to_f, 0.1, row }
  end

  # Whoever keeps one String allocates fewer bytes than the file has.
  def test_json_tells_objects_bytes_and_garbage
    out, errors, status = Program.nb("rubyhttp", "-l", "2m", "-S", "dallas", "-J", "-n", "3",
                                     "-i", "custom-16kbuffer-notimeout,custom-64kbuffer-direct")
    assert_equal ["", 0], [errors, status.exitstatus]
    fresh, reused = out.lines.map { |line| JSON.parse(line) }

    assert_equal NB::CLI::RubyhttpCell::COLUMNS, fresh.keys.first(13)
    assert_operator fresh["Bytes Allocated"], :>=, 2_000_000
    assert_operator reused["Bytes Allocated"], :<, 1_000_000
    [fresh, reused].each do |row|
      assert_operator row["Allocations"], :>, 0
      assert_operator row["GC Time"], :>=, 0
    end
  end

  def test_calls_are_those_of_the_download
    system("strace -V", out: File::NULL, err: File::NULL) || missing("strace")
    out, errors, status = Program.nb("rubyhttp", "-l", "2m", "-S", "dallas", "-J", "--calls", "-w", "blocking",
                                     "-i", "custom-1kbuffer-timeout,custom-64kbuffer-direct")
    skip errors if errors.match?(/--calls: .*not permitted/) # a container may forbid it
    assert_equal ["", 0], [errors, status.exitstatus]
    small, large = out.lines.map { |line| JSON.parse(line)["System Calls"] }

    assert_operator small, :>=, 2_000_000 / 1024
    assert_operator large, :<, 2_000_000 / 1024
  end

  # Typhoeus refuses a libcurl that was initialised before a fork.
  def test_calls_of_every_client_are_counted
    system("strace -V", out: File::NULL, err: File::NULL) || missing("strace")
    out, errors, status = Program.nb("rubyhttp", "-l", "1m", "-S", "dallas", "-J", "--calls", "-i", "clients")
    skip errors if errors.match?(/--calls: .*not permitted/)
    assert_equal ["", 0], [errors, status.exitstatus]

    calls = out.lines.map { |line| JSON.parse(line) }.to_h { |row| row.values_at("Impl", "System Calls") }
    assert_equal CLIENTS.reject { |name| MISSING[name] }, calls.keys
    calls.each { |name, count| assert_operator count, :>, 5, name }
  end

  def test_calls_of_a_download_that_fails
    cell = NB::CLI::RubyhttpCell.new("stock")
    error = assert_raises(NB::CLI::Failure) { cell.send(:calls, 1) }
    assert_match(/\A--calls: stock: .*Connection refused/, error.message)
  end

  def test_chunks_are_as_large_as_the_buffer_and_percent_is_cpu_by_clock
    rows = measure("-S", "dallas", "-i", "custom-1kbuffer-timeout,custom-64kbuffer-select")

    assert_equal %w[1024 65536], (rows.map { |row| row["Max chunk size"] }).map(&:to_s)
    rows.each do |row|
      count, mean = row.values_at("Chunk count", "Mean chunk size").map(&:to_f)
      assert_in_delta LENGTH, count * mean, count
      cpu, seconds = row.values_at("Total CPU Time", "Clock time").map(&:to_f)
      assert_in_delta cpu / seconds * 100, row["% CPU usage"].to_f, 5
    end
  end

  def test_a_slow_site_keeps_to_its_pace
    fast, slow = measure("-S", "dallas,london", "-i", "stock").map { |row| row["Clock time"].to_f }

    assert_operator slow, :>=, 0.11 + (LENGTH / 5e6) - 0.02
    assert_in_time fast, slow, "a fast site is as slow"
  end

  def test_the_bodies_are_the_same
    bodies = NB::CLI::RubyhttpSites.open(150_000, %w[dallas]) do |ports|
      (NB::CLI::RubyhttpWays::ALL.keys - [NB::CLI::RubyhttpWays::SPLICE]).map do |name|
        body = +""
        NB::CLI::RubyhttpClients.get(name, ports.fetch("dallas")) { |chunk| body << chunk }
        body
      end
    end

    assert_equal [150_000], bodies.uniq.map(&:bytesize)
  end

  # A row of 1 MB by what it cost.
  def row(site, client, seconds: 1.0, clock: 2.0)
    [site, client, 1024, 1024 / clock, 64, 16_384.0, 63, 16_384, seconds, 0, seconds, clock, seconds / clock * 100]
  end

  def write(name, *rows)
    path = File.join(@folder ||= Dir.mktmpdir, "#{name}.csv")
    File.write(path, [NB::CLI::RubyhttpCell::COLUMNS, *rows].map { |values| "#{values.join(",")}\n" }.join)
    path
  end

  def teardown = @folder && FileUtils.remove_entry(@folder)

  def test_combine
    paths = %w[a b].map { |name| write(name, row("dallas", "stock"), row("dallas", "curl").fill("", 4, 4)) }
    out, errors, = Program.nb("rubyhttp", "combine", *paths)

    assert_equal "", errors
    lines = paths.flat_map { |path| File.readlines(path).drop(1).map { |line| "#{File.basename(path, ".csv")},#{line}" } }
    assert_equal ["File,#{NB::CLI::RubyhttpCell::COLUMNS.join(",")}\n", *lines], out.lines
    combined = File.join(@folder, "aggregate.csv").tap { |path| File.write(path, out) }
    assert_equal [out, "", 0], Program.nb("rubyhttp", "combine", combined).then { |*all, status| [*all, status.exitstatus] }
  end

  def test_findings
    path = write("mine", row("dallas", "stock", seconds: 1.0, clock: 1.0), row("london", "stock", seconds: 1.5, clock: 9.0),
                 row("dallas", "custom-16kbuffer-notimeout", seconds: 0.8),
                 row("dallas", "custom-64kbuffer-notimeout", seconds: 0.5),
                 row("dallas", "custom-16kbuffer-select", seconds: 0.81))
    out, errors, = Program.nb("rubyhttp", "findings", path)

    assert_equal "", errors
    verdicts = out.lines.to_h { |line| [line[15..].strip, line[0, 15].strip] }
    found = ->(text) { verdicts.find { |line, _| line.start_with?(text) }&.last }
    assert_equal "holds", found["Net::HTTP as it comes"]
    assert_equal "not measured", found["1 KB with Timeout"]
    assert_equal "no difference", found["select is worse"]
    assert_equal "does not hold", found["64 KB is worse"]
    assert_equal "not measured", found["Every way of Net::HTTP is worse than curb"]
    assert_equal "holds", found["“% CPU” is highest"]
    assert_equal "does not hold", found["CPU time per gigabyte"]
    assert_match(/64 KB.*custom-64kbuffer-notimeout 476.84 s\/GB, custom-16kbuffer-notimeout 762.94 s\/GB/, out)
  end

  def test_the_page_has_both_charts_and_is_safe
    rows = %w[dallas london].product(%w[stock curl]).map { |site, client| row(site, client, seconds: 1.0) }
    path = write("<b>&", *rows)
    page = File.join(@folder, "deep", "index.html")
    out, errors, = Program.nb("rubyhttp", "chart", path, "-o", page)

    assert_equal ["Page: #{page}\n", ""], [out, errors]
    html = File.read(page)
    assert_equal 8, html.scan("<svg").size
    assert_includes html, "by site"
    assert_includes html, "&lt;b&gt;&amp;"
    refute_match(/<script|https?:/, html)
  end

  def test_a_file_that_was_changed_is_refused_before_a_line_is_printed
    good = write("good", row("dallas", "stock"))
    { "no number" => "x", "a column less" => nil }.each do |name, value|
      bad = row("dallas", "stock").tap { |values| value ? values[10] = value : values.pop }
      out, errors, status = Program.nb("rubyhttp", "combine", good, path = write(name, bad))

      assert_equal ["", 2], [out, status.exitstatus]
      assert_includes errors, "#{path} was not written by nb rubyhttp, or has been changed"
    end
  end

  { %w[-i nothing] => "unknown: \"nothing\"", %w[-S paris] => "-S: unknown: \"paris\"",
    %w[-l 5q] => "not a length", %w[x] => "takes no argument", %w[-z] => "invalid option",
    %w[combine] => "combine needs files", %w[combine /nowhere] => "No such file",
    ["combine", __FILE__] => "was not written by nb rubyhttp", %w[findings] => "findings needs files",
    %w[chart] => "chart needs files", %w[chart --bogus] => "invalid option", %w[-w fibers] => "-w: unknown: \"fibers\"",
    %w[-n 0] => "a number from 1 to 1000", %w[-n x] => "a number from 1 to 1000",
    %w[--calls] => "only with --json" }.each do |arguments, message|
    define_method("test_says_what_is_wrong_with_#{arguments.join("_")}") do
      error = assert_raises(NB::CLI::UsageError) do
        capture_io { NB::CLI::Rubyhttp.run(arguments) }
      end
      assert_includes error.message, message
    end
  end
end
