# frozen_string_literal: true

require_relative "name_server"
# Every name is answered 0.3 s late in these tests, and each has a network of its own.
NAMES_ARE_LATE = NameServer.enter(0.3)

require "minitest/autorun"
require "neverblock"
require_relative "certificates"
require_relative "databases"
require_relative "leaks"
require_relative "mistake"
require_relative "proxies"
require_relative "ticker"
require_relative "timing"
require_relative "transparency/measure"
require_relative "transparency/rows"

NB::Task.report_on_exception = false # the test says so

# Whether a library waits properly, measured: each operation is a test, and a row of
# docs/TRANSPARENCY.md (`rake transparency` measures and writes it). A file per library, in
# test/drivers/<library>_test.rb:
#
#   class RedisClientTest < Transparency
#     library "redis-client", group: "Redis and memcached", gems: %w[redis-client],
#             server: -> { Databases.redis }
#
#     waits "a command" do             # the body runs in a loop
#       clients = together { connect } # 50, not measured
#       measure { |i| clients[i].call("BLPOP", "none#{i}", 0.1) } # 50 fibers, in at most 0.2 s
#     ensure
#       clients&.each(&:close)         # what is still open then fails the test
#     end
#
#     blocks "…", why: "…", instead: "…" do … end   # measured to stop the loop: says so on the page
#     fails "refused" do … end                # raises in a loop what it raises without one
#   end
#
# Other tests may stand beside them. `name_late` is a host name for 127.0.0.1 that is answered 0.3 s
# late (so `measure(delay: 0.3)`), Proxies.late and .cut stand before servers, HTTPServers are HTTP.
class Transparency < Minitest::Test
  # Seconds that all together may take beyond the delay of one, and that the ticker may be late.
  SLACK = 0.1
  LATE = 0.010
  # Seconds after which a body counts as hanging.
  LIMIT = 60

  class << self
    # @return [Rows] what is measured, in order
    attr_reader :rows

    # Says what the rows of this class are about.
    # @param name [String] on the page
    # @param group [String] the table of the page
    # @param gems [Array<String>] whose versions stand on the page; the first is the library's
    # @param server [Proc, nil] starts the server; what it returns is `server` in the bodies
    # @param against [Proc, nil] returns the name and version of the server
    # @param cure [String, nil] what NeverBlock does so that it waits; nil: nothing is needed
    # @param ruby [String] a requirement such as ">= 3.2"
    def library(name, group:, gems: [], server: nil, against: nil, cure: nil, ruby: ">= 3.1")
      @server = server
      @ruby = Gem::Requirement.new(ruby)
      @rows = Rows.new(name, group: group, gems: gems, against: against, cure: cure)
      file_test
    end

    # One operation that waits in the loop.
    # @param how [String, nil] instead of the library's `cure`
    def waits(operation, how: @rows.cure, ruby: nil, &body)
      row(operation, ruby, kind: "waits", how: how) { |row| assert_waits(row, &body) }
    end

    # One operation that stops the loop and cannot be cured.
    # @param why [String] the reason
    # @param instead [String] what to use
    def blocks(operation, why:, instead:, ruby: nil, &body)
      how = "#{why}; instead: #{instead}"
      row(operation, ruby, kind: "blocks", how: how) { |row| assert_blocks(row, &body) }
    end

    # One fault, raised in the body: the same in a loop as without one.
    def fails(fault, ruby: nil, &body)
      return skipped(fault) unless runs?(ruby)

      @rows.faults << fault
      define_method("test_#{@rows.name}_#{fault}") { assert_fails(&body) }
    end

    def start_server = @started ||= @server&.call

    private

    def row(operation, ruby, **facts, &block)
      return skipped(operation) unless runs?(ruby)

      row = @rows.add(operation, **facts)
      define_method("test_#{@rows.name}_#{operation}") { instance_exec(row, &block) }
    end

    def skipped(name)
      test = "test_#{@rows.name}_#{name}"
      define_method(test) { skip "of another Ruby" } unless method_defined?(test, false)
    end

    def runs?(ruby)
      [@ruby, Gem::Requirement.new(ruby)].all? { |one| one.satisfied_by?(Gem.ruby_version) }
    end

    def file_test
      define_method("test_#{@rows.name} is on the page as it is here") do
        rows = self.class.rows
        skip "the page has no results of Ruby #{Rows::RUBY}" unless rows.of_this_ruby?
        problems = rows.stale
        assert_empty problems, "docs/TRANSPARENCY.md is stale; rake transparency writes it anew"
      end
    end
  end

  def self.test_order = :alpha
  def self.runnable_methods = methods_matching(/^test_/) # in the order in which they are written

  def setup
    skip "needs a namespace of its own" unless NAMES_ARE_LATE
    self.class.start_server
  end

  # What the `server` of `library` returned.
  def server = self.class.start_server

  # A name for 127.0.0.1, answered late, each time another.
  def name_late = "n#{rand(1_000_000_000)}.test"

  # Runs the block so many times at once, unmeasured: for opening connections.
  # @return [Array]
  def together(count = 50, &block) = NB.map(0...count, concurrency: count, &block)

  # Runs the block in that many fibers at once, with a ticker beside them. Once per body.
  # @param delay [Float] seconds that the server takes for one
  # @return [Array] the values
  def measure(count: 50, delay: 0.1, &block)
    @measure = Measure.new(count, delay)
    @measure.run(&block)
  end

  # Whether the library closes its connections before the garbage collector comes.
  def closes? = true

  # Seconds that the loop may stand still.
  def standstill = LATE

  private

  def assert_waits(row, &body)
    enter(&body)
    assert_operator @measure.lasted, :>=, @measure.delay / 2, "nothing waited"
    problem = @measure.blocking(SLACK, standstill)
    raise TimingFailure, problem if problem

    row.done(@measure)
  end

  def assert_blocks(row, &body)
    enter(&body)
    refute_nil @measure.blocking(SLACK, standstill), "it does not block any more: say `waits`"
    row.done(@measure)
  end

  def assert_fails(&body)
    expected = outcome { plain(&body) }
    assert_kind_of Array, expected, "it does not fail in plain Ruby"
    assert_equal expected, outcome { enter(&body) }
  end

  def outcome
    yield
  rescue Mistake
    raise
  rescue StandardError => error
    volatile = /0x\h+|n\d+\.test|fd:\d+|\d+ (?=milliseconds|ms)/
    [error.class, error.message.gsub(volatile, "…")]
  end

  # The body in a loop; what it leaves open fails.
  def enter(&body)
    @measure = nil
    before = Leaks.fds
    NB.run { NB.timeout(LIMIT, HangError) { instance_exec(&body) } }
  ensure
    assert_empty left_since(before), "left open" unless $! # rubocop:disable Style/SpecialGlobalVars
  end

  # Threads and children are the servers' and the libraries'. Some close when they are collected.
  def left_since(fds)
    before = { fds: fds, threads: Float::INFINITY, children: Leaks.children }
    left = Leaks.since(before, patience: 0.3)
    return left if left.empty?

    GC.start
    closes? ? Leaks.since(before) : []
  end

  # The body without a loop (so faults use neither `together` nor `measure`).
  def plain(&body)
    thread = Thread.new { instance_exec(&body) }
    thread.report_on_exception = false
    thread.value
  end

  # The body is still running.
  class HangError < StandardError; end
end
