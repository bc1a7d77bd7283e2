# frozen_string_literal: true

# Serves a rackup file with Agoo: agoo.rb PORT THREADS WORKERS RACKUP

require "agoo"
require "rack"
require "tmpdir"

port, threads, workers = ARGV.first(3).map { |text| Integer(text) }
app = Rack::Builder.parse_file(ARGV.fetch(3))
app = app.first if app.is_a?(Array) # Rack 2

Agoo::Log.configure(dir: "", console: true, classic: true, colorize: false,
                    states: { INFO: false, DEBUG: false, connect: false, request: false,
                              response: false, eval: false, push: false })
Agoo::Server.init(port, Dir.mktmpdir("bench-agoo"), bind: ["http://127.0.0.1:#{port}"],
                                                     thread_count: threads, worker_count: workers)
Agoo::Server.handle(nil, "/**", app)
Agoo::Server.start
sleep
