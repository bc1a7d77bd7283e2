# frozen_string_literal: true

# What every server of the server tables serves: one path per kind of request. Plain Rack; the only
# wait that is not Ruby's own is PostgreSQL's, over a pool that any scheduler and threads can use.

require "json"

HELLO = ["Hello, World!"].freeze
PEOPLE = Array.new(20) { |i| { id: i, name: "Person #{i}", mail: "p#{i}@example.org" } }.freeze
BIG = ("x" * 3_000_000).freeze
LINE = "#{"y" * 31}\n".freeze
FILE = ENV.fetch("BENCH_FILE", __FILE__)

if ENV["BENCH_DATABASE"]
  require "pg"
  require_relative "pool"
  size = Integer(ENV.fetch("BENCH_POOL", "50"))
  POOL = Pool.new(size) { PG.connect(ENV.fetch("BENCH_DATABASE")) }
end

# A thousand parts, each of its own; the server decides how they travel.
class Parts
  def each
    1000.times { yield LINE }
  end
end

# A file that the server may send itself.
class Sent
  def to_path = FILE

  def each
    File.open(FILE, "rb") { |file| yield file.read(65_536) until file.eof? }
  end
end

# The hash is new each time: Rack lets servers change it.
def hello
  [200, { "content-type" => "text/plain", "content-length" => "13" }, HELLO]
end

def text(body)
  [200, { "content-type" => "text/plain", "content-length" => body.bytesize.to_s }, [body]]
end

def json(object)
  body = JSON.generate(object)
  [200, { "content-type" => "application/json", "content-length" => body.bytesize.to_s }, [body]]
end

LONG = "select pg_sleep(0.002)"
THREE = [LONG] * 3
MIX = [LONG, *["select 1"] * 10].freeze

def query(list)
  POOL.with { |connection| list.each { |sql| connection.exec(sql).clear } }
  text("asked")
end

def burn
  sum = 0
  20_000.times { |i| sum += i }
  text(sum.to_s)
end

PAGES = {
  "/hello" => ->(_env) { hello },
  "/sleep" => ->(_env) { sleep(0.01) && hello },
  "/sql" => ->(_env) { query(THREE) },
  "/mix" => ->(_env) { query(MIX) },
  "/json" => ->(_env) { json(people: PEOPLE) },
  "/post" => ->(env) { text(env["rack.input"].read.bytesize.to_s) },
  "/big" => ->(_env) { [200, { "content-length" => BIG.bytesize.to_s }, [BIG]] },
  "/stream" => ->(_env) { [200, { "content-type" => "text/plain" }, Parts.new] },
  "/file" => ->(_env) { [200, { "content-length" => File.size(FILE).to_s }, Sent.new] },
  "/burn" => ->(_env) { burn },
  "/objects" => ->(_env) { text(GC.stat(:total_allocated_objects).to_s) }
}.freeze

run ->(env) { PAGES.fetch(env["PATH_INFO"]).call(env) }
