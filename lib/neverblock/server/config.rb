# frozen_string_literal: true

require_relative "access_log"
require_relative "control_address"
require_relative "cores"
require_relative "handover"
require_relative "options"
require_relative "origin"

module NB
  class Server
    # What `nb serve` runs, and how: from flags, from config/neverblock.rb, and from the environment
    # that systemd or a re-executed master has left. A configuration file is evaluated inside an
    # instance, so its words are the methods here. They have Puma's names where they mean the same.
    #
    # @example config/neverblock.rb
    #   bind "tcp://0.0.0.0:9292"
    #   workers 2
    #   fibers 128
    #   preload_app!
    #   on_worker_boot { ActiveRecord::Base.establish_connection }
    class Config
      # The maximum number of processes.
      WORKERS_MOST = 1024
      # The maximum of listeners from systemd.
      LISTENERS_MOST = 1024
      private_constant :LISTENERS_MOST
      # The hooks that a configuration file may set, by the moment when they are called.
      HOOKS = %i[before_fork on_worker_boot on_worker_shutdown on_booted on_restart].freeze

      # @return [Array<String>] the addresses to listen on; the default if none is set
      def bindings
        return @inherited unless @inherited.empty?

        @bindings.empty? ? ["tcp://127.0.0.1:9292"] : @bindings
      end

      # @return [Array<String>] listeners that are already open: `fd://…`
      attr_reader :inherited
      # @return [Handover] from the master that this process was before USR2
      # @api private
      attr_reader :handover
      # @return [Origin] the environment and the folder that USR2 starts the program in
      # @api private
      attr_reader :origin
      # @return [Hash{Symbol=>Object}] options of {Server}
      attr_reader :server_options
      # @return [String, nil] what is wrong with the configuration after USR2: only the workers of
      #   the program before can serve
      # @api private
      attr_reader :fault

      # @param environment [Hash{String=>String}]
      def initialize(environment: ENV)
        @bindings = []
        @server_options = {}
        @hooks = HOOKS.to_h { |name| [name, []] }
        named = %w[APP_ENV RACK_ENV RAILS_ENV].filter_map { |name| value_of(environment, name) }
        @values = {workers: nil, rackup: "config.ru", environment: named.first || "development",
                   preload: true, worker_timeout: 60, max_requests: nil, max_memory_mb: nil,
                   pidfile: nil, control: nil, access_log: nil, quiet: false,
                   blocking: false, page: nil}
        read_environment(environment)
      end

      # Evaluates a configuration file in this object.
      #
      # @param path [String]
      # @return [self]
      # @raise [ArgumentError] for any mistake in it: one line, with the place in the file
      def load(path)
        instance_eval(File.read(path, encoding: "UTF-8"), path) # as Ruby reads its files
        self
      rescue ScriptError, StandardError => error
        raise ArgumentError, [place(error, path), *mistake(error)].compact.join(": ")
      end

      # @return [String] without the values: Ruby 3.1 puts it into the error for a word that is
      #   misspelled in a hook, and the environment may contain passwords
      def inspect = "#<#{self.class}>"

      # Runs the block, which reads a part of the configuration. After USR2 an error ends nothing:
      # the workers of the program before continue.
      #
      # @return [self]
      # @raise what the block raises, unless there are such workers
      # @api private
      def settle
        yield self
        self
      rescue ScriptError, StandardError => error
        raise if @handover.workers.empty?

        blame(error.message)
      end

      # Only the workers of the program before can serve, because of this.
      #
      # @param fault [String]
      # @return [self]
      # @api private
      def blame(fault)
        @fault ||= fault
        @values.merge!(@handover.settings) { |_, own, before| own || before }
        self
      end

      # @return [Hash{Symbol=>Object}] what the next program needs of this one if it finds a mistake
      #   in its own configuration
      # @api private
      def kept = @values.slice(:control, :pidfile).compact

      # With a value sets a setting, without one returns it.
      #
      # @!method workers(count)
      #   @param count [Integer, nil] processes; nil: one, without a master
      # @!method environment(name)
      # @!method rackup(path)
      # @!method worker_timeout(seconds)
      #   A worker whose loop has not turned for this long is killed and replaced.
      # @!method max_requests(count)
      #   A worker that has served this many requests is replaced.
      # @!method max_memory_mb(megabytes)
      # @!method pidfile(path)
      # @!method control(address)
      #   `unix://…` or `tcp://127.0.0.1:9394`, or an Array of them: serves JSON for `nb stats`,
      #   /ready for a load balancer, /metrics for Prometheus.
      # @!method access_log(path)
      %i[workers environment rackup worker_timeout max_requests max_memory_mb pidfile control
         access_log].each do |name|
        define_method(name) do |value = (told = true)|
          told ? @values[name] : @values[name] = check(name, value)
        end
      end

      Options::TABLE.keys.difference(Options::SWITCHES).each do |name|
        define_method(name) { |value| @server_options[name] = Options.check(name, value) }
      end

      # Alone, the word switches on, as `early_hints` does in Puma.
      Options::SWITCHES.each do |name|
        define_method(name) do |value = true|
          @server_options[name] = Options.check(name, value)
        end
      end

      # Prints no banner.
      def quiet(answer = true) # rubocop:disable Style/OptionalBooleanParameter
        @values[:quiet] = Checks.boolean(:quiet, answer)
      end

      # @return [Boolean]
      def quiet? = @values[:quiet]

      # Each process lists the calls that waited outside its loop, at PWR and when it ends.
      # @raise [ArgumentError] on Ruby 3.1
      def blocking(answer = true) # rubocop:disable Style/OptionalBooleanParameter
        @values[:blocking] = Checks.boolean(:blocking, answer)
        raise ArgumentError, "blocking: #{BlockingCalls::UNAVAILABLE}" if
          blocking? && !BlockingCalls.available?
      end

      # @return [Boolean]
      def blocking? = @values[:blocking]

      # Has the block called around the time in which a process serves.
      #
      # @yieldparam serve [Proc] to be called
      # @api private
      def around(&block) = @around = block

      # Serves, inside the block of {#around} if there is one.
      #
      # @yield serves until the server ends
      # @return what the block or {#around} gives
      # @api private
      def serve(&block) = @around ? @around.call(block) : yield

      # Serves {NB::Page}, which shows what the server does now, at this path. Without options it
      # answers clients on this machine only.
      #
      # @param path [String]
      # @param options of {Page#initialize}
      # @raise [ArgumentError]
      def page(path = "/neverblock", **options)
        raise ArgumentError, "page: must be a path such as /neverblock, got: #{path.inspect}" unless
          path.to_s.b.match?(%r{\A(/[\w.~-]+)+\z})

        options = @values[:page].last if options.empty? && @values[:page]
        Page.new(**options)
        @values[:page] = [path, options]
      end

      # @return [Array(String, Hash), nil] the path and options of {#page}
      # @api private
      def page_at = @values[:page]

      # @param format [Symbol] :common or :json
      def access_log_format(format)
        @server_options[:access_log_format] = AccessLog.check(format)
      end

      # Called in the worker after each response, with the Hash that {Server#initialize} describes.
      # The last callable given counts.
      # @yieldparam request [Hash]
      def on_request(&block)
        @server_options[:on_request] = given(:on_request, block)
      end

      # @param seconds [Numeric, nil] how long running requests have after the first INT or TERM; 0:
      #   they end at once; nil: no limit
      def drain_timeout(seconds)
        @server_options[:drain_timeout] = Checks.seconds(:drain_timeout, seconds, zero: true)
      end

      # @return [Float, nil] the value set, or the default; nil: no limit
      # @api private
      def drain_seconds = @server_options.fetch(:drain_timeout, Server::DRAIN_TIMEOUT)

      # Puma's names for these settings.
      alias worker_shutdown_timeout drain_timeout
      alias persistent_timeout idle_timeout
      alias first_data_timeout header_timeout

      # @param address [String] see {Server#initialize}
      def bind(address) = @bindings << address

      # Flags override the file.
      # @param addresses [Array<String>]
      # @api private
      def replace_bindings(addresses) = @bindings.replace(addresses)

      # @param number [Integer]
      # @param host [String]
      def port(number, host = "0.0.0.0") = bind("tcp://#{host}:#{number}")

      # Puma's name. Only the second number matters: the size of the fiber pool.
      def threads(_minimum, maximum = nil)
        @threads_most = maximum && fibers(maximum)
      end

      # @return [Integer, nil] the requests at a time that {#threads} allows
      # @api private
      attr_reader :threads_most

      # Loads the application before forking, so workers share its memory.
      def preload_app!(answer = true)
        @values[:preload] = Checks.boolean(:preload_app!, answer)
      end # rubocop:disable Style/OptionalBooleanParameter

      # @return [Boolean]
      def preload? = @values[:preload]

      HOOKS.each do |name|
        define_method(name) do |&block|
          @hooks[name] << given(name, block)
        end
      end
      # Puma's names from version 7 on.
      alias before_worker_boot on_worker_boot
      alias before_worker_shutdown on_worker_shutdown
      alias after_booted on_booted
      alias before_restart on_restart

      # Calls the blocks of one hook in the order in which they were set.
      #
      # @yield [error] what one of them raised; without a block it is raised here
      # @api private
      def call_hooks(name, *arguments)
        @hooks.fetch(name).each do |block|
          block.call(*arguments)
        rescue ScriptError, StandardError => error
          block_given? ? yield(error) : raise
        end
      end

      # The number of worker processes: as set, or for :auto one per usable core.
      #
      # @return [Integer] 0: no master
      def worker_count = workers == :auto ? Cores.usable : workers || 0

      # @return [Boolean] whether this process serves by itself, without a master
      # @api private
      def single? = worker_count.zero? && @fault.nil?

      # @return [Integer] NEVERBLOCK_FIBERS: in how many fibers Puma's plugin runs requests
      # @raise [ArgumentError] if it is not a number that `fibers` accepts
      def self.puma_fibers
        count = ENV["NEVERBLOCK_FIBERS"].to_s.strip
        count = 256 if count.empty? # set to nothing is not set
        Checks.integer("NEVERBLOCK_FIBERS", count, Options::TABLE[:fibers][1])
      end

      private

      def check(name, value)
        case name
        when :workers then worker_setting(value)
        when :max_requests, :max_memory_mb then value && Checks.integer(name, value, 1..(2**62))
        when :environment, :rackup then Checks.text(name, value || @values[name])
        when :pidfile, :access_log then value && Checks.text(name, value)
        when :worker_timeout then silence(Checks.seconds(name, value) || Float::INFINITY)
        when :control then Array(value).each { |address| ControlAddress.new(address) } if value
        else value
        end
      end

      # The word is a String where it comes from the environment or the command line.
      def worker_setting(value)
        return value && :auto if value.nil? || value.to_s == "auto"

        Checks.integer(:workers, value, 0..WORKERS_MOST, also: ":auto")
      end

      # Workers that report in time must not be killed.
      def silence(seconds)
        return seconds if seconds > WorkerProcess::REPORTS

        Checks.refuse(:worker_timeout, "seconds > #{WorkerProcess::REPORTS}, which is how often " \
                                       "workers report, or nil for no limit", seconds)
      end

      def given(name, block) = block || raise(ArgumentError, "#{name}: must be given a block")

      # @return [Array<String>] what is wrong
      def mistake(error)
        return ["unknown setting #{error.name}"] if error.is_a?(NameError) && asked?(error)

        # What Ruby 3.4 says of a syntax error under that line or instead of it; 3.1 says it at
        # once. It shows the line, whose bytes may be wrong.
        mark = error.message.scrub[/^\s*\|\s+\^~*\s+(\S.*)$|found\n\S+:\d+: (.*)$/, 1] || $2 if
          error.is_a?(SyntaxError)
        [error.message.lines.first&.chomp || error.class.name, mark].compact
      end

      # @return [Boolean] whether it was this object that does not know the word
      def asked?(error)
        equal?(error.receiver)
      rescue ArgumentError
        false # raised by hand, without a receiver
      end

      # Where in the file it happened.
      def place(error, path)
        error.backtrace&.find { |line| line.start_with?("#{path}:") }&.slice(/\A.*?:\d+/)
      end

      def read_environment(environment)
        @handover = Handover.new(environment)
        @inherited = @handover.listeners
        systemd_listeners(environment) if @inherited.empty?
        count = value_of(environment, "WEB_CONCURRENCY")
        workers(count == "auto" ? :auto : web_concurrency(count)) if count
        @origin = Origin.new(environment)
      end

      def web_concurrency(count) = Checks.integer("WEB_CONCURRENCY", count, 0..WORKERS_MOST)

      # @return [String, nil] nil, too, for a variable that was set to nothing
      def value_of(environment, name)
        environment[name].to_s.strip.then { |text| text unless text.empty? }
      end

      def systemd_listeners(environment)
        return unless environment["LISTEN_PID"].to_i == Process.pid

        count = Checks.integer("LISTEN_FDS", environment["LISTEN_FDS"] || 0, 0..LISTENERS_MOST)
        @inherited = Array.new(count) { |i| "fd://#{3 + i}" }
        # These variables are for us, not for our children.
        %w[LISTEN_PID LISTEN_FDS LISTEN_FDNAMES].each { |name| environment.delete(name) }
      end
    end
  end
end
