# frozen_string_literal: true

require "neverblock"
require "neverblock/server"
require "socket"
require_relative "../../bench/frame/statistics"

# What the watchdog costs: CPU time of this process per operation, in loops that it watches and in
# loops that it does not, in turns: `rake stalls:cost[200]`. One process makes both, because two
# differ by more than the watchdog takes. And what its own thread takes, as the kernel counts it.
class WatchdogCost
  CLIENTS = 16
  # Seconds of each loop; a pair is two of them.
  SLICE = 0.4
  LIMIT = 0.1
  # The most that the watchdog may cost.
  AIM = 1.01

  # @param pairs [Integer] at least 6
  # @param kinds [Array<String>] of {KINDS}
  # @return [Boolean] whether no kind surely costs more than the aim; {#verdict} says whether one
  #   surely costs no more
  def call(pairs, kinds)
    kinds.map { |kind| report(kind, *measure(kind, pairs)) }.all?
  end

  private

  # @return [Array(Array<Float>, Array<Float>)] how many times the CPU time per operation, and the
  #   thread's share of all CPU time while it watches; one of each per pair
  def measure(kind, pairs)
    slice(kind, true) # warms up
    Array.new(pairs) do |number|
      order = number.even? ? [true, false] : [false, true]
      used = order.to_h { |watched| [watched, slice(kind, watched)] }
      [used[true].first / used[false].first, used[true].last]
    end.transpose
  end

  def report(kind, ratios, shares)
    low, high = Bench::Statistics.interval(ratios)
    puts format("%-6s %.4f times the CPU time per operation [95 %%: %.4f to %.4f], %d pairs: %s",
                kind, Bench::Statistics.median(ratios), low, high, ratios.size, verdict(low, high))
    percents = [Bench::Statistics.median(shares), *Bench::Statistics.interval(shares)]
    puts format("%-6s its thread: %.3f %% of the process's CPU time [95 %%: %.3f to %.3f]",
                "", *percents.map { |share| share * 100 })
    low <= AIM
  end

  def verdict(low, high)
    return "at most 1 % more, proved" if high <= AIM

    low <= AIM ? "undecided: it may be more than 1 %" : "more than 1 %"
  end

  # @return [Array(Float, Float)] seconds of CPU time per operation, and the thread's share
  def slice(kind, watched)
    NB::Native.watch(watched ? (LIMIT * 1e9).to_i : 0, *NB::Dump.others)
    @count = 0
    from = [cpu, thread_cpu]
    NB.run { send(kind) }
    whole, thread = [cpu, thread_cpu].zip(from).map { |after, before| after - before }
    [whole / @count, thread / whole]
  end

  def cpu = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID)

  # @return [Float] seconds that the watchdog's thread ran; 0.0 before it is started
  def thread_cpu
    @task ||= Dir["/proc/self/task/*"].find { |task| File.read("#{task}/comm") == "nb-watchdog\n" }
    @task ? File.read("#{@task}/schedstat").to_i / 1e9 : 0.0
  end

  def echo
    ends = Array.new(CLIENTS) { UNIXSocket.pair }
    ends.each { |_, server| NB.async { answer(server) } }
    together(ends.map(&:first)) do |client|
      client.write("x" * 64)
      client.readpartial(64)
    end
  ensure
    ends.each { |client, _| client.close }
  end

  def answer(socket)
    loop { socket.write(socket.readpartial(64)) }
  rescue EOFError
    socket.close
  end

  def hello
    serve(->(_) { [200, {"content-type" => "text/plain"}, ["hello"]] })
  end

  def rails
    require "action_controller/railtie"
    serve(@rails ||= application)
  end

  def application
    made = Class.new(Rails::Application) do
      config.eager_load = false
      config.logger = Logger.new(nil)
      config.secret_key_base = "x" * 64
      config.hosts = nil
    end
    hello = Class.new(ActionController::API) { def index = render(json: {text: "hello"}) }
    made.initialize!
    made.routes.draw { get "/", to: hello.action(:index) }
    made.instance
  end

  def serve(app)
    server = NB::Server.new(app, bind: "tcp://127.0.0.1:0", log: $stderr).listen
    running = NB.async { server.run }
    clients = Array.new(CLIENTS) { TCPSocket.new("127.0.0.1", server.port) }
    together(clients) do |client|
      client.write("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
      head = client.readpartial(4096)
      raise head unless head.start_with?("HTTP/1.1 200")
    end
  ensure
    clients&.each(&:close)
    server&.stop
    running&.wait
  end

  def together(clients)
    stop = Process.clock_gettime(Process::CLOCK_MONOTONIC) + SLICE
    NB.map(clients, concurrency: CLIENTS) do |client|
      while Process.clock_gettime(Process::CLOCK_MONOTONIC) < stop
        yield client
        @count += 1
      end
    end
  end
end

if $PROGRAM_NAME == __FILE__
  pairs = Integer(ARGV.fetch(0, "100"))
  exit WatchdogCost.new.call(pairs, ARGV.drop(1).empty? ? %w[echo hello] : ARGV.drop(1))
end
