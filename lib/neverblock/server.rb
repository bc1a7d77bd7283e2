# frozen_string_literal: true

require "socket"
require_relative "native"
require_relative "loop/scheduler"
require_relative "loop/runner"
require_relative "server/errors"
require_relative "server/options"
require_relative "server/core"
require_relative "server/environment"
require_relative "server/binding"
require_relative "server/stream"
require_relative "server/lazy_input"
require_relative "server/streamed_input"
require_relative "server/access_log"

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
    # @return [Options] every option with its value
    attr_reader :options
    # @return [#call] the Rack application; may be set until {#run}
    attr_writer :app
    # @return [Boolean] whether other processes accept on the same listeners
    # @api private
    attr_writer :shared

    # @param app [#call] a Rack application; must not mind that requests overlap at its waits
    # @param bind [String, Array<String>] `tcp://host:port` (port 0: any), `unix://path`,
    #   `ssl://host:port?cert=…&key=…`, `fd://3`
    # @param log [#write, nil] where errors go; nil: nowhere
    # @param access_log [#write, nil] one line per answer; nil: none
    # @param access_log_format [Symbol] :common or :json
    # @param drain_timeout [Numeric] seconds that {#stop} gives to requests that run
    # @param options limits and timeouts: see {Options}
    # @raise [ArgumentError] for an option that does not exist or a value out of range
    def initialize(app, bind: "tcp://127.0.0.1:9292", log: $stderr, access_log: nil,
                   access_log_format: :common, drain_timeout: 25, **options)
      @app = app
      @log = log
      @options = Options.new(**options)
      @bindings = Array(bind).map { |address| Binding.parse(address) }
      @drain_timeout = Float(drain_timeout)
      @commands = Thread::Queue.new
      @core = Core.new
      @core.reporter = method(:report)
      @core.access_log = access_log && AccessLog.new(access_log, format: access_log_format)
    end

    # Opens the listeners. {#run} does it if it was not done; a cluster does it before it forks.
    #
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

    # @return [Hash{String=>Integer}] of each open listener: the address that another process which
    #   inherits the fd can bind, and the fd
    # @scheduling never waits
    def listener_fds = @bindings.to_h { |binding| [binding.inheritance, binding.io.fileno] }

    # Serves until {#stop}. Outside a loop it makes one.
    #
    # @yield [self] once connections are accepted
    # @return [Boolean] whether every request that ran could finish
    # @scheduling always waits
    def run(&started)
      Fiber.respond_to?(:current_scheduler) && Fiber.current_scheduler or
        return Runner.run(backend: nil, repairs: true) { run(&started) }

      begin
        listen
        start
        started&.call(self)
        @commands.pop
        finished = drain
        raise @exit if @exit

        finished
      ensure
        @core.stop(NB::Cancelled.new("the server stops"))
        close
      end
    end

    # Asks {#run} to end: nothing new is accepted, idle connections close, requests that run get
    # `drain_timeout` seconds; a second call ends at once.
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

    # @return [Hash{Symbol=>Integer}] counters: connections, requests, errors, bytes …
    # @scheduling never waits
    def stats = @core.stats

    # What runs now.
    #
    # @return [Array<Hash>] per request: method, path, age in seconds, backtrace of its fiber
    # @scheduling never waits
    def requests
      @core.running.map do |env, fiber, age|
        {method: env["REQUEST_METHOD"], path: env["PATH_INFO"], age: age.round(3),
         request_id: env["HTTP_X_REQUEST_ID"], backtrace: fiber.alive? ? fiber.backtrace : []}
      end
    end

    # @return [Boolean] whether it accepts connections: false while it drains
    # @scheduling never waits
    def ready? = @ready == true

    # @return [String]
    def inspect = "#<#{self.class} #{addresses.join(" ")} #{ready? ? "ready" : "not ready"}>"

    private

    def start
      core_options = @options.to_h.merge(log: !@core.access_log.nil?, shared: @shared == true)
      @core.configure(@app, Environment.template(errors: @log || $stderr), core_options)
      @core.start
      @bindings.each { |binding| binding.attach(@core, @options[:connections]) }
      @exit = nil
      @ready = true
    end

    def drain
      @ready = false
      @bindings.each(&:refuse)
      @core.leave
      close # the kernel refuses what comes now, instead of letting it wait
      @core.drain # not before: clients whose connection ends come back at once
      impatient = Fiber.schedule { @commands.pop && @core.stop(NB::Cancelled.new("the server stops")) }
      @core.join(@drain_timeout)
    ensure
      impatient && Fiber.scheduler.fiber_interrupt(impatient, NB::Cancelled.new("drained"))
    end

    def report(error, env)
      leave(error) if error.is_a?(SystemExit)
      return unless @log

      request = env && "#{env["REQUEST_METHOD"]} #{env["PATH_INFO"]} "
      trace = Array(error.backtrace).first(30).map { |line| "\n    #{line}" }.join
      @log.write("#{Time.now.utc.strftime("%FT%TZ")} #{request}#{words(error)}#{trace}\n")
    end

    # The application called exit: the server ends, once the other requests are answered.
    def leave(error)
      return if @exit

      @exit = error
      stop
    end

    def words(error)
      "#{error.class}: #{error.message}"
    rescue StandardError => raised # Ruby 3.1's error_highlight does, for calls out of C
      "#{error.class} (its message raises #{raised.class})"
    end
  end
end
