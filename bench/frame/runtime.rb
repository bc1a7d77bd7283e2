# frozen_string_literal: true

module Bench
  # What runs a workload's jobs side by side: threads, a fiber scheduler, nothing at all. One file
  # per runtime in bench/runtimes/. The parent process reads what it needs; the cell enters it.
  class Runtime
    # @return [String] id used in tables and JSONL
    attr_reader :id
    # @return [String] its file in bench/runtimes/
    attr_reader :file
    # @return [Hash] environment variables of the cell
    attr_reader :environment
    # @return [Hash] parameters of the cell; set by the cell before it enters
    attr_accessor :params

    # @param id [String]
    # @param size [Array<Integer>] at most one; of a runtime that comes in several sizes
    # @yield in the runtime: label, needs_ruby, gems, variables, enter, spawn …
    def initialize(id, *size, &block)
      @id = id
      @label = id
      @oldest_ruby = "3.1"
      @gems = proc { {} }
      @environment = {}
      @params = {}
      @enter = proc { |work| work.call }
      @spawn = proc { |job| Fiber.schedule(&job) }
      @home = @file = id.delete_suffix("_#{size.first}")
      @needs = []
      @compiled = []
      instance_exec(*size, &block)
    end

    # @param text [String, nil] sets it when given
    # @return [String] what a reader calls the runtime
    def label(text = nil)
      @label = text if text
      @label
    end

    # @param text [String, nil] sets it when given
    # @return [String, nil] how it is set up, where that is a choice of ours
    def settings(text = nil)
      @settings = text if text
      @settings
    end

    # @param version [String] oldest Ruby
    # @param reason [String, nil] added to the message
    def needs_ruby(version, reason = nil)
      @oldest_ruby = version
      @oldest_reason = reason
    end

    # @yieldparam version [Gem::Version] of the Ruby that will run it
    # @yieldreturn [Hash{String => String}] gem => version, in the order of installation
    def gems(&block) = @gems = block

    # Where its gems are installed: runtimes with the same gems share a place.
    #
    # @param name [String, nil] sets it when given
    # @return [String]
    def home(name = nil)
      @home = name if name
      @home
    end

    # @param names [Array<String>] programs that must be in the PATH
    def needs(*names) = @needs += names

    # A web server: the command that serves bench/served/app.ru. Called in the cell only.
    #
    # @yieldparam port [Integer] where it must listen
    # @yieldparam rackup [String] path of the application
    # @yieldreturn [Array<String>] the command; a name without a slash is a gem's or the system's
    def serve(&block) = @serve = block

    # C programs of bench/rivals/ that the cells start; compiled before they run.
    #
    # @param names [Array<String>] adds them
    # @return [Array<String>]
    def compiled(*names) = @compiled += names

    # The cells run the workload's rival in C, see {Workload.rival}.
    def in_c = @in_c = true

    # The runtime is no rival: it shows what the machine can do.
    def yardstick = @yardstick = true

    # The runtime is ours: the extension must be compiled for the Ruby that runs it.
    def ours = @ours = true

    # @return [Boolean]
    def in_c? = @in_c == true

    # @return [Boolean]
    def yardstick? = @yardstick == true

    # @return [Boolean]
    def ours? = @ours == true

    # @return [Array<String>] the Ruby that runs this, with YJIT if it has it on
    def self.ruby
      yjit = defined?(RubyVM::YJIT.enabled?) && RubyVM::YJIT.enabled?
      [RbConfig.ruby, *("--yjit" if yjit)]
    end

    # @param port [Integer]
    # @param rackup [String]
    # @return [Array<String>]
    def command(port, rackup) = instance_exec(port, rackup, &@serve)

    # Sets environment variables of the cell, or with no argument keeps them.
    #
    # @param variables [Hash]
    def variables(variables) = @environment = variables

    # How a cell enters the runtime; called in the cell only.
    #
    # @yieldparam work [Proc] to be called inside
    def enter(&block) = @enter = block

    # How a cell starts a job beside the others; called in the cell only.
    #
    # @yieldparam job [Proc]
    def spawn(&block) = @spawn = block

    # @param version [Gem::Version]
    # @return [String, nil] why this Ruby cannot run it; nil when it can
    def refusal(version)
      return @oldest_reason || "needs Ruby #{@oldest_ruby} or newer" if
        version < Gem::Version.new(@oldest_ruby)

      missing = @needs.reject { |name| Runtime.path(name) }
      "#{missing.join(", ")} not found: run bin/setup" if missing.any?
    end

    # @param program [String]
    # @return [String, nil] where it is, also where only root's PATH looks
    def self.path(program)
      places = [*ENV.fetch("PATH", "").split(File::PATH_SEPARATOR), "/usr/sbin"]
      places.map { |place| File.join(place, program) }.find { |path| File.executable?(path) }
    end

    # @param version [Gem::Version]
    # @return [Hash{String => String}]
    def gems_for(version) = @gems.call(version)

    # Runs the block inside the runtime and gives its value.
    #
    # @return [Object] value of the block
    # @raise [Exception] what the block raised
    def run(&work)
      value = error = nil
      guarded = proc do
        value = work.call
      rescue StandardError => caught
        error = caught
      end
      instance_exec(guarded, &@enter)
      raise error if error

      value
    end

    # @yield the job
    # @return [Object] whatever the runtime gives
    def start(&job)
      instance_exec(job, &@spawn)
    end

    # Runs a scheduler on this thread until all fibers have ended.
    #
    # @param scheduler [Object] a Fiber scheduler
    # @param work [Proc]
    # @return [void]
    def drive(scheduler, work)
      Fiber.set_scheduler(scheduler)
      Fiber.schedule(&work)
    ensure
      Fiber.set_scheduler(nil)
    end
  end
end
