# frozen_string_literal: true

# Pages that compute between short queries, as a large application's do, and one that waits.

require "pg"
require_relative "pool"

POOL = Pool.new(Integer(ENV.fetch("BENCH_POOL"))) { PG.connect(ENV.fetch("BENCH_DATABASE")) }

def cpu = Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID)

# 1.8 ms of CPU time, whatever the machine and the Ruby.
def compute
  over = cpu + 0.0018
  nil while cpu < over
end

def page(queries)
  POOL.with do |connection|
    queries.times do
      connection.exec("select 1").clear
      compute
    end
  end
end

PAGES = {
  "/hello" => -> {},
  "/light" => -> { page(20) },
  "/report" => -> { page(400) },
  "/waits" => -> { sleep(0.5) && page(5) }
}.freeze

run(lambda do |env|
  PAGES.fetch(env["PATH_INFO"]).call
  [200, { "content-type" => "text/plain", "content-length" => "4" }, ["page"]]
end)
