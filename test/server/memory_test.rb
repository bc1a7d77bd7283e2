# frozen_string_literal: true

require_relative "helper"
require "json"
require "neverblock"
require "neverblock/server/exposition"
require "neverblock/server/launcher"

# What a server keeps of the past is bounded, whatever names a program makes up.
class ServerMemoryTest < Minitest::Test
  include ServerTest

  NAMES = 10_000
  SNAPSHOTS = 3000
  # Without a bound, each name costs a few hundred bytes, and each snapshot several thousand.
  ROOM_KB = 20_000

  # What those who look get, with a detail of their own.
  def look(count)
    count.times do
      JSON.generate(@server.snapshot(fibers: 50, requests: 50, frames: 5))
      @metrics = NB::Server::Metrics.samples(0 => @server.metrics)
    end
  end

  # Without the lines of pools and tasks: how many there are at first depends on what was running,
  # or not collected yet. Their numbers have bounds of their own.
  def text
    lines = NB::Server::Exposition.new("text/plain").text(@metrics).lines
    lines.grep_v(/nb_(pool|tasks)/).join
  end

  # Each pool has a wait, and each task its time. Pools that nobody has collected yet are listed.
  def make_names(range)
    range.each_slice(500) do |part|
      NB.run do
        part.each { |number| NB.async(name: "task #{number} #{"x" * 40}") { use_pool(number) } }
        look(1)
      end
      GC.start
    end
  end

  def use_pool(number)
    pool = NB::ConnectionPool.new(size: 1, name: "pool #{number} #{"y" * 40}") { Object.new }
    holder = NB.async { pool.with { NB.yield } }
    pool.with { nil }
    holder.value
  end

  def resident_kb
    3.times { GC.start }
    NB::Server::Metrics.resident_kb
  end

  def test_names_and_snapshots_leave_nothing
    serve { |env| [200, TEXT, [env["PATH_INFO"]]] }
    make_names(0...1000)
    look(300)
    size = text.bytesize
    before = resident_kb
    make_names(1000...NAMES)
    look(SNAPSHOTS)
    assert_operator resident_kb - before, :<, ROOM_KB
    assert_in_delta size, text.bytesize, 100
    assert_equal [51, 31], %i[nb_tasks nb_pool_waits].map { |name| @metrics[name].size }
    assert_operator NB.pools.size, :<=, 50
  end
end
