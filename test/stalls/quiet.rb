# frozen_string_literal: true

require "net/http"
require "neverblock"
require "rbconfig"
require "tempfile"
require_relative "../support/ports"

# A server with requests that wait, and compute a little, for some seconds. The watchdog must report
# nothing: `rake stalls:quiet[600]`.
class QuietServer
  ROOT = File.expand_path("../..", __dir__)
  APP = <<~'RUBY'
    run lambda { |env|
      sleep rand / 50
      text = Array.new(500) { |i| i.to_s }.join
      [200, {"content-type" => "text/plain"}, [text]]
    }
  RUBY
  CLIENTS = 20
  PAUSE = 0.05

  # @param seconds [Numeric]
  # @return [Boolean] whether nothing was reported
  def call(seconds)
    @port = Ports.free
    @count = 0
    Tempfile.create(["quiet", ".ru"]) do |rackup|
      rackup.write(APP)
      rackup.flush
      serve(rackup.path, seconds)
    end
  end

  private

  def serve(rackup, seconds)
    Tempfile.create("log") do |log|
      paths = $LOAD_PATH.map { |one| "-I#{one}" }
      pid = Process.spawn({"NB_WATCHDOG" => nil}, RbConfig.ruby, *paths,
                          File.join(ROOT, "exe/nb"), "serve", "-q", "-C", "-", "-p", @port.to_s,
                          rackup, out: log, err: log)
      load_it(seconds)
      Process.kill(:TERM, pid)
      Process.wait(pid)
      said = File.read(log.path)
      puts said, "#{@count} requests in #{seconds} s, #{said.scan("stood still").size} reports"
      return said.empty? && @count > seconds
    end
  end

  def load_it(seconds)
    stop = Process.clock_gettime(Process::CLOCK_MONOTONIC) + seconds
    NB.run { CLIENTS.times { NB.async { client(stop) } } }
  end

  def client(stop)
    while Process.clock_gettime(Process::CLOCK_MONOTONIC) < stop
      ask
      sleep PAUSE
    end
  end

  def ask
    Net::HTTP.start("127.0.0.1", @port) { |http| http.get("/").body }
    @count += 1
  rescue Errno::ECONNREFUSED
    raise if @count.positive? # it starts
  end
end

exit QuietServer.new.call(Float(ARGV.fetch(0, "600"))) if $PROGRAM_NAME == __FILE__
