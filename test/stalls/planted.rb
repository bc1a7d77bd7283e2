# frozen_string_literal: true

require "rbconfig"
require_relative "../support/name_server"
require_relative "../support/subprocess"

# rubocop:disable Layout/LineLength -- a program each, better on one line

# Makes a loop stand still in many ways, several times each, and counts how often the watchdog names
# the line: `rake stalls[10]`. Each stall has a line of its own, because the watchdog reports a
# place only once a minute.
class PlantedStalls
  # The code that comes first, and the line that makes the loop stand still. SIZE grows until the
  # line takes 150 ms of CPU time; a line without SIZE waits for 200 ms.
  KINDS = {
    "Ruby loop" => ["", "i = 0; i += 1 while i < SIZE"],
    "Ruby block" => ["", "SIZE.times { |i| i.to_s }"],
    "Regexp" => ["", "/\\A(?:(a+)+)\\1b/.match('a' * Math.log2(SIZE) + 'cb')"],
    "JSON" => ["require 'json'", "JSON.generate([[1, { 'a' => 'b' }]] * SIZE)"],
    "zlib" => ["require 'zlib'", "Zlib.deflate('a1b2' * SIZE, 9)"],
    "SHA-512" => ["require 'digest'", "Digest::SHA512.hexdigest('a1b2' * SIZE)"],
    "bcrypt" => ["require 'bcrypt'; NB::Drivers.off('bcrypt')", "BCrypt::Engine.hash_secret('x', BCrypt::Engine.generate_salt(Math.log2(SIZE).ceil.clamp(4, 31)))"],
    "sqlite3" => ["require 'sqlite3'; DB = SQLite3::Database.new(':memory:')",
                  "DB.execute('with recursive n(i) as (select 1 union all select i + 1 from n limit ' + SIZE.to_s + ') select sum(i) from n')"],
    "sort" => ["R = Random.new(1)", "Array.new(SIZE) { R.rand }.sort { |a, b| a <=> b }"],
    "garbage" => ["HEAP = Array.new(300_000) { 'x' }", "(SIZE / 256).times { GC.start }"],
    "sleep" => ["", "blocking { sleep 0.2 }"],
    "flock" => ["require 'tempfile'; FILE = Tempfile.new; OTHER = File.new(FILE.path); def held = OTHER.flock(2) && Thread.new { sleep 0.2; OTHER.flock(8) }",
                "held; blocking { FILE.flock(2); FILE.flock(8) }"],
    "FIFO" => ["require 'tmpdir'; FIFO = Dir.mktmpdir + '/f'; File.mkfifo(FIFO)",
               "Thread.new { sleep 0.2; File.write(FIFO, 'x') }; blocking { File.read(FIFO) }"],
    "queue" => ["Q = Queue.new", "Thread.new { sleep 0.2; Q << 1 }; blocking { Q.pop }"],
    "hiredis" => ["require 'hiredis'; require 'socket'; SERVER = TCPServer.new('127.0.0.1', 0); Thread.new { c = SERVER.accept; loop { 3.times { c.gets }; sleep 0.2; c << \"+OK\\r\\n\" } }; REDIS = Hiredis::Connection.new.tap { |r| r.connect('127.0.0.1', SERVER.addr[1]) }",
                  "REDIS.write(['GET']); blocking { REDIS.read }"],
    "name" => ["require 'socket'", "blocking { Addrinfo.getaddrinfo('slow.test', 80) }"]
  }.freeze

  PROGRAM = <<~'RUBY'
    FIRST, CODE, TIMES = %p
    begin
      eval(FIRST)
    rescue LoadError => error
      abort error.message
    end
    def blocking(&block) = Fiber.new(blocking: true, &block).resume
    def cpu = Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID)
    def plant(line) = eval(CODE.gsub("SIZE", $size.to_s), TOPLEVEL_BINDING, "planted.rb", line)
    $size = 256
    if CODE.include?("SIZE")
      while (from = cpu; plant(100_000); cpu - from < 0.15)
        $size *= 2
      end
    end
    NB.run(repairs: false) do
      other = NB.async { sleep }
      TIMES.times { |i| sleep 0.01; plant(i + 1) }
      sleep 0.5
      other.cancel
    end
  RUBY
  # What the report must say that it did. What allocates may be seen while the collector runs.
  COMPUTES = /\Ait computes\z/.freeze
  ALLOCATES = /\Ait (computes|collects garbage)\z/.freeze
  WAITS = /\Ait waits outside the loop\z/.freeze
  WORDS = Hash.new(COMPUTES).update(
    "Ruby block" => ALLOCATES, "JSON" => ALLOCATES, "sort" => ALLOCATES,
    "garbage" => /\Ait collects garbage\z/,
    **%w[sleep flock FIFO queue hiredis name].to_h { |name| [name, WAITS] }
  ).freeze
  LOCK = File.expand_path("../../rakelib/locks/ruby-#{RUBY_VERSION[/\A\d+\.\d+/]}.lock", __dir__)
  REPORT = /stood still for (\d+) ms at planted\.rb:(\d+):.*?: (it .*?)[;.,]/.freeze

  # @param times [Integer] how many stalls of each kind
  # @return [Boolean] whether the line of each was named, in the right words
  def call(times)
    @absent = []
    printf("%-11s %8s %6s  %s\n", "", "planted", "named", "ms, and what it did")
    good = KINDS.map { |name, (first, code)| one(name, first, code, times) }.all?
    puts "NOT RUN: #{@absent.join(", ")}" if @absent.any?
    good
  end

  private

  def one(name, first, code, times) # rubocop:disable Metrics/ParameterLists
    result = run(name, format(PROGRAM, [first, code, times]), limit: 60 + times * 5)
    return skipped(name, result) unless result.status.success?

    reports = result.err.scan(REPORT)
    named = (reports.map { |_, line,| Integer(line) }.uniq & (1..times).to_a).size
    lengths = reports.map { |ms,| Integer(ms) }
    said = reports.map(&:last).tally
    wrong = said.keys.grep_v(WORDS[name])
    printf("%-11s %8d %6d  %s: %s%s\n", name, times, named, lengths.minmax.join(" to "),
           said.map { |text, count| "#{count} #{text}" }.join("; "), (" WRONG" if wrong.any?))
    named == times && wrong.empty?
  end

  # Names are answered late in a network that has a name server of its own.
  def run(name, script, limit:)
    env = {"NB_WATCHDOG" => nil, "NB_NAMES" => "0.2"}
    return Subprocess.ruby(script, env: env, limit: limit) if name != "name"
    return NameServer.run("require 'neverblock'\n#{script}", env: env, limit: limit) if NameServer.available?

    Subprocess.ruby("abort 'cannot load such file: no user namespaces'")
  end

  # A gem that our lock names must be there; others, and name servers, may be missing.
  def skipped(name, result)
    puts "#{name.ljust(11)}  not run: #{result.err.lines.last&.chomp || "it did not end in time"}"
    @absent << name
    result.err.include?("cannot load such file") && !locked?(name)
  end

  def locked?(name) = File.exist?(LOCK) && File.read(LOCK).match?(/^    #{Regexp.escape(name)} \(/)
end

exit PlantedStalls.new.call(Integer(ARGV.fetch(0, "10"))) if $PROGRAM_NAME == __FILE__
# rubocop:enable Layout/LineLength
