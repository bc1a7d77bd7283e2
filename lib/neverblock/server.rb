# frozen_string_literal: true

require "socket"
require_relative "native"
require_relative "loop/scheduler"
require_relative "loop/drain"
require_relative "loop/runner"
require_relative "server/errors"
require_relative "server/options"
require_relative "server/core"
require_relative "server/ferry"
require_relative "server/environment"
require_relative "server/binding"
require_relative "server/stream"
require_relative "server/lazy_input"
require_relative "server/streamed_input"
require_relative "server/access_log"
require_relative "server/observer"
require_relative "server/metrics"
require_relative "server/snapshot"

module NB
  # An HTTP/1.1 server for Rack applications that lives inside the loop: connections are C structs,
  # and each complete request runs in a pooled fiber, where every wait lets the others go on.
  #
  # @example Serve a program of one line
  #   app = ->(env) { [200, {"content-type" => "text/plain"}, ["hello\n"]] }
  #   NB::Server.new(app, bind: "tcp://127.0.0.1:9292").run
  #
  # @example Beside other work, in a loop of your own
  #   NB.run do
  #     server = NB::Server.new(app, bind: "unix:///tmp/app.sock")
  #     NB.async { server.run }
  #     sleep 60
  #     server.stop
  #   end
  class Server
    # Seconds that {#stop} gives by default.
    DRAIN_TIMEOUT = 25
    # Seconds between two tries to accept when fds or memory are short.
    ACCEPT_AGAIN = 0.01
    # Before a failure that is not reported again.
    ONCE = "on_request (reported once) "
    private_constant :ACCEPT_AGAIN, :ONCE

    @running = {}.compare_by_identity # each of its calls is one in C: threads need no lock for it

    class << self
      # @return [Hash{Server=>Boolean}] those that run in this process
      # @api private
      attr_reader :running

      # @return [Server, nil] the one in the calling fiber's loop, else any of this process
      # @api private
      def here
        all = @running.keys
        all.find { |server| server.in?(Fiber.scheduler) } || all.first
      end
    end

    # @return [Options] every option with its value
    attr_reader :options
    # @return [#call] the Rack application; may be set until {#run}
    attr_writer :app
    # @return [Boolean] whether other processes accept on the same listeners
    # @api private
    attr_writer :shared
    # @return [Float, nil] the clock when it began to serve
    # @api private
    attr_reader :since
    # @return [Hotline, nil] to the master, in a worker
    # @api private
    attr_accessor :line

    # @param app [#call] a Rack application; must not mind that requests overlap at its waits
    # @param bind [String, Array<String>] `tcp://host:port` (port 0: any), `unix://path`,
    #   `ssl://host:port?cert=…&key=…`, `fd://3`
    # @param log [#write, nil] where errors go; nil: nowhere
    # @param access_log [#write, nil] one line per answer; nil: none
    # @param access_log_format [Symbol] :common or :json
    # @param on_request [#call, nil] called after each answer with a Hash: :method, :path, :status
    #   (nil: none, as after a hijack), :seconds in the application, :queue_seconds before it and
    #   :bytes sent. What it raises is reported once and ends nothing. nil: none
    # @param drain_timeout [Numeric, nil] seconds that what runs has at most after {#stop}: the
    #   requests, and all else in the loop when {#run} has made it; 0: it ends at once; nil: no
    #   limit
    # @param options limits and timeouts: see {Options}
    # @raise [ArgumentError] for an option that does not exist or a value out of range
    def initialize(app, bind: "tcp://127.0.0.1:9292", log: $stderr, access_log: nil,
                   access_log_format: :common, on_request: nil, drain_timeout: DRAIN_TIMEOUT,
                   **options)
      @app = app
      @log = log
      @options = Options.new(**options)
      @bindings = Array(bind).map { |address| Binding.parse(address) }
      @drain_timeout = Checks.seconds(:drain_timeout, drain_timeout, zero: true)
      @commands = Thread::Queue.new
      @core = Core.new
      @core.reporter = method(:report)
      @core.access_log = access_log && AccessLog.new(access_log, format: access_log_format)
      @core.observer = on_request && Observer.new(on_request) { |error| log_error(error, ONCE) }
    end

    # Opens the listeners. {#run} does it if it was not done; a cluster does it before it forks.
    #
    # @param reuse_port [Boolean] whether another process may listen at the same port (SO_REUSEPORT)
    # @return [self]
    # @raise [SystemCallError] when an address cannot be bound
    # @scheduling may wait
    def listen(reuse_port: false)
      @bindings.each { |binding| binding.open(reuse_port: reuse_port) }
      self
    end

    # Closes the listeners of a server that does not run; {#run} does it by itself.
    #
    # @return [self]
    # @scheduling never waits
    def close
      @bindings.each(&:close)
      self
    end

    # From now on the kernel lets nobody in.
    #
    # @return [self]
    # @api private
    def refuse
      @bindings.each(&:refuse)
      self
    end

    # @return [Boolean] whether a connection that the kernel let in is not accepted yet
    # @api private
    def waited_for? = @bindings.any?(&:waited_for?)

    # The process that opened the listeners is gone: those who wait at them are up to this one.
    #
    # @return [self]
    # @api private
    def inherit
      @bindings.each(&:inherit)
      self
    end

    # @return [Hash{String=>Integer}] of each open listener: the address that another process which
    #   inherits the fd can bind, and the fd
    # @scheduling never waits
    def listener_fds = @bindings.to_h { |binding| [binding.inheritance, binding.io.fileno] }

    # Serves until {#stop}. Outside a loop it makes one.
    #
    # @yield [self] once connections are accepted
    # @return [Boolean] whether every request that ran could finish
    # @raise [RuntimeError] if it runs already; once it has ended it may run again
    # @scheduling always waits
    def run(&started)
      raise "this server runs already: make another one for another loop" if @runs

      Fiber.respond_to?(:current_scheduler) && Fiber.current_scheduler or
        return run_alone(&started)

      begin
        @runs = Server.running[self] = true
        listen
        start
        started&.call(self)
        @commands.pop
        finished = drain
        raise @exit if @exit

        finished
      ensure
        end_at_once
        @ferry&.close
        Server.running.delete(self)
        close
        @runs = false
        resume unless @alone
      end
    end

    # Asks {#run} to end: nothing new is accepted, idle connections close, requests that run get
    # `drain_timeout` seconds, in which {NB.stopping?} is true and {NB.until_stop} ends; a second
    # call ends at once.
    #
    # @return [self] at once
    # @scheduling never waits
    # @thread any; also in a signal handler
    def stop
      @commands << :stop
      self
    end

    # @return [Array<String>] where it listens, with the real port
    # @scheduling never waits
    def addresses = @bindings.map(&:to_s)

    # @return [Integer, nil] the port of the first TCP binding
    # @scheduling never waits
    def port = @bindings.filter_map(&:port).first

    # @return [Hash{Symbol=>Integer, Boolean}] counters: connections, requests, errors, bytes …
    # @scheduling never waits
    def stats = @core.stats

    # @return [Hash{Symbol=>Numeric, Hash}] the same and more, by the names of {Metrics::FAMILIES}
    # @api private
    def metrics = Metrics.read(stats, @scheduler&.stats, @core.histograms)

    # All that this process tells of itself: see docs/OBSERVE.md.
    #
    # @param detail [Hash{Symbol=>Integer}] fibers, requests and frames at most: {Snapshot::DETAIL}
    # @return [Hash{Symbol=>Object}]
    # @scheduling never waits
    # @thread any
    # @api private
    def snapshot(**detail) = Snapshot.new(self, @scheduler, **detail).to_h

    # @return [Array(Hash, Fiber, Float)] of each request that runs: env, fiber and age in seconds;
    #   the oldest first
    # @api private
    def running = @core.running

    # What runs now.
    #
    # @return [Array<Hash>] per request: method, path, age in seconds, backtrace of its fiber
    # @scheduling never waits
    def requests
      @core.running.map do |env, fiber, age|
        {method: env["REQUEST_METHOD"], path: Text.utf8(env["PATH_INFO"]), age: age.round(3),
         request_id: Text.utf8(env["HTTP_X_REQUEST_ID"]),
         backtrace: Native.user_frames(fiber.backtrace)}
      end
    end

    # @return [Boolean] whether it accepts connections: false while it drains
    # @scheduling never waits
    def ready? = @ready == true

    # @return [Boolean] whether it runs in this loop
    # @api private
    def in?(scheduler) = !scheduler.nil? && @scheduler.equal?(scheduler)

    # @return [Boolean] whether it lets what runs end, and takes nothing new
    # @scheduling never waits
    # @api private
    def draining? = @stopping == true

    # @return [String]
    def inspect = "#<#{self.class} #{addresses.join(" ")} #{ready? ? "ready" : "not ready"}>"

    private

    # What else runs in its loop is to know of the stop until that has ended too.
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
      core_options = @options.to_h.merge(log: @core.log?, shared: @shared == true)
      @core.configure(@app, Environment.template(errors: @log || $stderr), core_options)
      @core.start
      @scheduler = Fiber.scheduler
      @core.ferry = @ferry = Ferry.new
      @bindings.each { |binding| binding.attach(@core, @options) }
      @exit = nil
      @since = now
      @ready = true
    end

    def drain
      @ready = false
      @stopping = true
      Drain.stop(Fiber.scheduler)
      @deadline = @drain_timeout && (now + @drain_timeout)
      impatient = Fiber.schedule { hurry if @commands.pop }
      refuse
      accept_rest
      close # the kernel refuses what comes now, instead of letting it wait
      @core.drain # not before: clients whose connection ends come back at once
      join_all
    ensure
      impatient && Fiber.scheduler.fiber_interrupt(impatient, NB::Cancelled.new("drained"))
    end

    # Where fds or memory are short, those whose connections end make room.
    def accept_rest
      return if all_accepted?

      @core.drain
      sleep ACCEPT_AGAIN until all_accepted? || left&.zero?
    end

    def all_accepted? = [@core.leave, *@bindings.map(&:accept_rest)].all?

    # The core's connections, then those that carry its answers further: all in the same time.
    def join_all
      finished = @core.join(left)
      @bindings.map { |binding| binding.join(left) }.all? && finished
    end

    # A second stop.
    def hurry
      @deadline = now
      end_at_once
    end

    def end_at_once
      @core.stop(NB::Cancelled.new("the server stops"))
      @bindings.each(&:stop)
    end

    # What else runs in a loop that was made for us, such as an hour's sleep in {NB.async}, gets
    # what drain_timeout has left.
    def dismiss_others
      own = Fiber.current
      Fiber.schedule do
        Fiber.scheduler.yield while own.alive?
        wait_for_stop
        Fiber.scheduler.__send__(:interrupt_all, NB::Cancelled, "the server has ended")
      end
    end

    def wait_for_stop
      return if left&.zero?

      Fiber.scheduler.idle { ::Timeout.timeout(left) { @commands.pop } }
    rescue ::Timeout::Error
      nil
    end

    # @return [Float, nil] seconds that are left of drain_timeout; nil: no end
    def left = @deadline && [@deadline - now, 0].max

    def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

    def report(error, env)
      leave(error) if error.is_a?(SystemExit)
      words = env&.values_at("REQUEST_METHOD", "PATH_INFO")&.map { |text| Text.ascii(text) }
      log_error(error, words && "#{words.join(" ")} ")
    end

    def log_error(error, what)
      return unless @log

      # Each in UTF-8: bytes of one and umlauts of another do not go together.
      frames = Native.user_frames(error.backtrace).first(30)
      trace = frames.map { |line| "\n    #{Text.utf8(line)}" }.join
      @log.write("#{Time.now.utc.strftime("%FT%TZ")} #{what}#{words(error)}#{trace}\n")
    end

    # The application called exit: the server ends, once the other requests are answered.
    def leave(error)
      return if @exit

      @exit = error
      stop
    end

    def words(error)
      "#{error.class}: #{Text.utf8(error.message)}"
    rescue StandardError => raised # Ruby 3.1's error_highlight does, for calls out of C
      "#{error.class} (its message raises #{raised.class})"
    end
  end
end
