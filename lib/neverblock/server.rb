# frozen_string_literal: true

require "socket"
require_relative "../neverblock" # the snapshot and the page ask NB
require_relative "native"
require_relative "loop/scheduler"
require_relative "loop/drain"
require_relative "loop/runner"
require_relative "server/errors"
require_relative "server/options"
require_relative "server/collections"
require_relative "server/core"
require_relative "server/loop_calls"
require_relative "server/environment"
require_relative "server/address"
require_relative "server/stream"
require_relative "server/lazy_input"
require_relative "server/streamed_input"
require_relative "server/early_bytes"
require_relative "server/access_log"
require_relative "server/observer"
require_relative "server/metrics"
require_relative "server/snapshot"

module NB
  # An HTTP/1.1 server for Rack applications, inside the loop. Connections are C structs; each
  # complete request runs in a pooled fiber, and whenever that fiber waits, others run.
  #
  # @example Serve a program of one line
  #   app = ->(env) { [200, {"content-type" => "text/plain"}, ["hello\n"]] }
  #   NB::Server.new(app, bind: "tcp://127.0.0.1:9292").run
  #
  # @example Alongside other work, in a loop of your own
  #   NB.run do
  #     server = NB::Server.new(app, bind: "unix:///tmp/app.sock")
  #     NB.async { server.run }
  #     sleep 60
  #     server.stop
  #   end
  class Server
    # Seconds that {#stop} allows by default.
    DRAIN_TIMEOUT = 25
    # Seconds between two attempts to accept while fds or memory are short.
    ACCEPT_AGAIN = 0.01
    # Starts the report of a failure that is reported only once.
    ONCE = "on_request (reported once) "
    # Starts the report of an access log that cannot be written.
    UNLOGGED = "access log, which misses lines from now on, until it can be written again: "
    private_constant :ACCEPT_AGAIN, :ONCE, :UNLOGGED

    @running = {}.compare_by_identity # each of its calls is one in C: threads need no lock for it

    class << self
      # @return [Hash{Server=>Boolean}] the servers that run in this process
      # @api private
      attr_reader :running

      # @param env [Hash] of a request
      # @return [Server, nil] the one that the request came to. If that was another kind of server:
      #   the one in the calling fiber's loop, or else any in this process
      # @api private
      def of(env)
        all, core = @running.keys, env["neverblock.exchange"]&.core
        all.find { |server| server.has?(core) } ||
          all.find { |server| server.in?(Fiber.scheduler) } || all.first
      end
    end

    # @return [Options] all options with their values
    attr_reader :options
    # @return [#call] the Rack application; it can be set until {#run}
    attr_writer :app
    # @return [Boolean] whether other processes accept from the same listeners; whether the program
    #   is there for nothing but this server
    # @api private
    attr_writer :shared, :program
    # @return [Float, nil] when it began to serve, by the monotonic clock
    # @api private
    attr_reader :since
    # @return [WorkerChannel, nil] in a worker: the connection to its master
    # @api private
    attr_accessor :channel

    # @param app [#call] a Rack application; its requests overlap when they wait
    # @param bind [String, Array<String>] `tcp://host:port` (port 0: any), `unix://path`,
    #   `ssl://host:port?cert=…&key=…`, `fd://3`
    # @param log [#write, nil] receives errors; nil: they are dropped
    # @param access_log [#write, nil] receives one line per response; nil: none is written
    # @param access_log_format [Symbol] :common or :json
    # @param on_request [#call, nil] called after each response with a Hash: :method, :path, :status
    #   (nil if there was none, as after a hijack), :seconds in the application, :queue_seconds
    #   before it and :bytes sent. Its exceptions do not affect the server; the first one is
    #   reported. nil: not called
    # @param drain_timeout [Numeric, nil] seconds that running requests have after {#stop}. If
    #   {#run} made the loop, all else in it has the same time. 0: they end at once; nil: no limit
    # @param options limits and timeouts: see {Options}
    # @raise [ArgumentError] for an option that does not exist or a value out of range
    def initialize(app, bind: "tcp://127.0.0.1:9292", log: $stderr, access_log: nil,
                   access_log_format: :common, on_request: nil, drain_timeout: DRAIN_TIMEOUT,
                   **options)
      @app = app
      @log = Checks.writer(:log, log)
      @options = Options.new(**options)
      @bindings = Address.all(bind, proxied: @options[:proxy_protocol])
      @drain_timeout = Checks.seconds(:drain_timeout, drain_timeout, zero: true)
      @commands = Thread::Queue.new
      @core = Core.new
      @collections = @core.collections = Collections.new if @options[:collect_when_idle]
      @core.reporter = method(:report)
      @core.access_log = access_log_to(Checks.writer(:access_log, access_log), access_log_format)
      @core.observer = on_request && Observer.new(on_request) { |error| log_error(error, ONCE) }
    end

    # Opens the listeners. {#run} does this if it has not been done; a cluster does it before it
    # forks.
    #
    # @param reuse_port [Boolean] whether other processes may listen on the same port (SO_REUSEPORT)
    # @return [self]
    # @raise [SystemCallError] if an address cannot be bound
    # @scheduling may wait
    def listen(reuse_port: false)
      @bindings.each { |one| one.open(backlog: @options[:backlog], reuse_port: reuse_port) }
      self
    end

    # Closes the listeners of a server that does not run; {#run} closes them by itself.
    #
    # @return [self]
    # @scheduling never waits
    def close
      @bindings.each(&:close)
      self
    end

    # Makes the kernel refuse new connections.
    #
    # @return [void]
    # @api private
    def refuse = @bindings.each(&:refuse)

    # @return [Boolean] whether the kernel holds a connection that is not accepted yet
    # @api private
    def waited_for? = @bindings.any?(&:waited_for?)

    # Takes over the clients that wait at the listeners, whose process is gone.
    #
    # @return [void]
    # @api private
    def inherit = @bindings.each(&:inherit)

    # @return [Hash{String=>Integer}] for each open listener: the address for a process that
    #   inherits the fd, and the fd
    # @scheduling never waits
    def listener_fds = @bindings.to_h { |binding| [binding.inheritance, binding.io.fileno] }

    # Serves until {#stop}; later it may serve again. Outside a loop, it makes one.
    #
    # @yield [self] once connections are accepted
    # @return [Boolean] whether every running request could finish
    # @raise [RuntimeError, ArgumentError] if it is running; if its application cannot be called
    # @scheduling always waits
    def run(&started)
      raise "this server is already running: make another one for another loop" if @runs

      Fiber.respond_to?(:current_scheduler) && Fiber.current_scheduler or
        return run_alone(&started)

      begin
        @runs = Server.running[self] = true
        listen
        start
        started&.call(self)
        FiberNames.within("the server") { outlive { @commands.pop } }
        finished = FiberNames.within("the server, which drains") { drain }
        raise @exit if @exit

        finished
      ensure
        end_at_once
        @loop_calls&.close
        Server.running.delete(self)
        close
        @runs = false
        resume unless @alone
      end
    end

    # Tells {#run} to end: nothing new is accepted, idle connections close, and running requests
    # have `drain_timeout` seconds. Meanwhile {NB.stopping?} is true and every {NB.until_stop} ends.
    # A second call ends the server at once.
    #
    # @return [self] at once
    # @scheduling never waits
    # @thread any; also in a signal handler
    def stop
      @commands << :stop
      self
    end

    # @return [Array<String>] the addresses it listens on, with the actual port
    # @scheduling never waits
    def addresses = @bindings.map(&:to_s)

    # @return [Integer, nil] the port of the first TCP binding
    # @scheduling never waits
    def port = @bindings.filter_map(&:port).first

    # @return [Hash{Symbol=>Integer, Boolean}] counters: connections, requests, errors, bytes, ...
    # @scheduling never waits
    def stats = @core.stats

    # @return [Hash{Symbol=>Numeric, Hash}] these and more, by the names of {Metrics::FAMILIES}
    # @api private
    def metrics = Metrics.read(stats, @scheduler, @core.histograms)

    # Everything this process reports about itself: see docs/OBSERVE.md.
    #
    # @param detail [Hash{Symbol=>Integer}] limits for fibers, requests and frames:
    #   {Snapshot::DETAIL}
    # @return [Hash{Symbol=>Object}]
    # @scheduling never waits
    # @thread any
    # @api private
    def snapshot(**detail) = Snapshot.new(self, @scheduler, **detail).to_h

    # @return [Array(Hash, Fiber, Float)] for each running request, the oldest first: env, fiber and
    #   age in seconds
    # @api private
    def running = @core.running

    # The running requests.
    #
    # @return [Array<Hash>] per request: method, path, age in seconds, backtrace of its fiber
    # @scheduling never waits
    def requests
      @core.running.map do |env, fiber, age|
        {method: env["REQUEST_METHOD"], path: Text.utf8(env["PATH_INFO"]), age: age.round(3),
         request_id: Text.utf8(env["HTTP_X_REQUEST_ID"]),
         backtrace: Native.user_frames(fiber.backtrace).map { |line| Text.utf8(line) }}
      end
    end

    # @return [Boolean] whether it accepts connections; false while it drains
    # @scheduling never waits
    def ready? = @ready == true

    # @return [Boolean] whether it runs in this loop
    # @api private
    def in?(scheduler) = !scheduler.nil? && @scheduler.equal?(scheduler)

    # @return [Boolean] whether this is its half in C
    # @api private
    def has?(core) = @core.equal?(core)

    # @return [Boolean] whether it lets running requests finish and takes no new ones
    # @scheduling never waits
    # @api private
    def draining? = @stopping == true

    # @return [String]
    def inspect = "#<#{self.class} #{addresses.join(" ")} #{ready? ? "ready" : "not ready"}>"

    private

    # Everything else in this loop sees the stop, too, until that has ended.
    def run_alone(&started)
      @alone = true
      Runner.run(backend: nil, repairs: true) { run(&started).tap { dismiss_others } }
    ensure
      @alone = false
      resume
    end

    def resume
      Drain.resume if @stopping
      @stopping = false
      @commands.clear # a second stop may have come too late
    end

    def start
      @options.for_rails if defined?(::Rails.application) && ::Rails.application
      template = Environment.template(@log || $stderr, workers: @shared == true)
      @core.configure(Checks.app(@app), template,
                      @options.to_h.merge(log: @core.log?, shared: @shared == true))
      @core.start
      @collections&.start
      @scheduler = Fiber.scheduler
      @core.loop_calls = @loop_calls = LoopCalls.new
      @bindings.each { |binding| binding.attach(@core, @options) }
      @exit, @since, @ready = nil, now, true
    end

    def drain
      @ready, @stopping = false, true
      Drain.stop(Fiber.scheduler)
      @deadline = @drain_timeout && (now + @drain_timeout)
      await_later_stop
      refuse
      accept_rest
      close # the kernel refuses what comes now, instead of letting it wait
      @core.drain # not before: clients whose connection ends come back at once
      join_all
    ensure
      @later_stop && Fiber.scheduler.fiber_interrupt(@later_stop, NB::Cancelled.new("drained"))
    end

    def await_later_stop
      @later_stop = nil # a cancel may strike as Fiber.schedule returns
      FiberNames.schedule("a later stop") { (@later_stop = Fiber.current) && @commands.pop && halt }
    rescue FiberError
      nil # the system has no room for it: a second stop is overlooked
    end

    # While fds or memory are short, ending connections make room.
    def accept_rest
      return if all_accepted?

      @core.drain
      outlive { sleep ACCEPT_AGAIN } until all_accepted? || left&.zero?
    end

    def all_accepted? = [@core.leave(@bindings), *@bindings.map(&:accept_rest)].all?

    # First the core's connections, then those that carry its answers on: within one time limit.
    def join_all
      finished = outlive { @core.join(left) }
      @bindings.map { |binding| outlive { binding.join(left) } }.all? && finished
    end

    def outlive(&wait) = @program ? ForeignExceptions.outlive(method(:log_error), &wait) : yield

    # A second stop.
    def halt
      @deadline = now
      end_at_once
    end

    def end_at_once
      @core.stop(NB::Cancelled.new("the server stops"))
      @bindings.each(&:stop)
      @collections&.stop
    end

    # Other fibers of a loop made for us, as one that sleeps in {NB.async}, get the remaining time.
    def dismiss_others
      own = Fiber.current
      FiberNames.schedule("the server's wait for other fibers") do
        Fiber.scheduler.yield while own.alive?
        wait_for_stop
        Fiber.scheduler.__send__(:end_fibers, "the server has ended")
      end
    end

    def wait_for_stop
      return if left&.zero?

      Fiber.scheduler.idle { ::Timeout.timeout(left) { @commands.pop } }
    rescue ::Timeout::Error
      nil
    end

    # @return [Float, nil] seconds left of drain_timeout; nil: no limit
    def left = @deadline && [@deadline - now, 0].max

    def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

    def report(error, env)
      leave(error) if error.is_a?(SystemExit)
      words = env&.values_at("REQUEST_METHOD", "PATH_INFO")&.map { |text| Text.ascii(text) }
      log_error(error, words && "#{words.join(" ")} ")
    end

    def access_log_to(io, format)
      AccessLog.to(io, format) { |error| log_error(error, UNLOGGED) }
    end

    def log_error(error, what)
      return unless @log

      frames = Native.user_frames(error.backtrace).first(30) # each in UTF-8, so they can be joined
      trace = frames.map { |line| "\n    #{Text.utf8(line)}" }.join
      @log.write("#{Time.now.utc.strftime("%FT%TZ")} #{what}#{words(error)}#{trace}\n")
    end

    # The application called exit: the server ends once the other requests are answered.
    def leave(error)
      return if @exit

      @exit = error
      stop
    end

    def words(error)
      "#{error.class}: #{Text.entry(error.message)}"
    rescue StandardError => raised # Ruby 3.1's error_highlight does, for calls out of C
      "#{error.class} (its message raises #{raised.class})"
    end
  end
end
