# frozen_string_literal: true

require "rbconfig"
require_relative "subject"

module NB
  # Every fiber of one loop: what it waits for, since when, and where in the program.
  #
  # @example
  #   warn NB.dump
  class Dump
    # How the lines of a backtrace begin that are not the program's: ours and Ruby's, then others'.
    OURS = ["#{File.expand_path("..", __dir__)}/", "#{File.expand_path("..", __dir__)}.rb",
            "<internal:"].freeze
    LIBRARIES = [*OURS, *RbConfig::CONFIG.values_at("rubylibdir", "sitedir", "vendordir"),
                 *(Gem.path.map { |path| "#{path}/" } if defined?(Gem))].compact.freeze
    private_constant :OURS, :LIBRARIES

    @names = []
    @appendices = []

    class << self
      # Has the block called by each dump, for names of fibers.
      #
      # @yieldreturn [Array<Array(Fiber, String)>]
      # @api private
      def name_fibers(&block) = @names << block

      # Has the block called at the end of each dump.
      #
      # @yieldreturn [Array<String>] lines
      # @api private
      def append(&block) = @appendices << block

      # @return [Array(Array<String>, Array<String>)] how paths begin that are not the program's:
      #   those of all libraries, and ours only
      # @api private
      def others = [LIBRARIES, OURS]

      # @param frames [Array<String>] a backtrace
      # @return [String] its innermost line of the program
      # @api private
      def place(frames)
        others.each do |prefixes|
          found = frames.find { |frame| !frame.start_with?(*prefixes) }
          return found if found
        end
        "a fiber without a line of the program"
      end

      # @return [Hash{Fiber => String}]
      # @api private
      def names = @names.flat_map(&:call).to_h.compare_by_identity

      # @return [Array<String>]
      # @api private
      def appendices = @appendices.flat_map(&:call)
    end

    # @param scheduler [NB::Scheduler]
    # @param frames [Integer] lines of backtrace per fiber, 0 or more
    def initialize(scheduler, frames: 12)
      @scheduler = scheduler
      @frames = frames
    end

    # @return [String] several lines per fiber, the longest waits first
    # @scheduling never waits
    # @thread any
    def to_s
      @names = Dump.names
      waits = @scheduler.waits.sort_by { |wait| -wait[:waited] }
      ["#{@scheduler.inspect}, pid #{Process.pid}", running, *waits.map { |wait| describe(wait) },
       *Dump.appendices].compact.join("\n")
    end

    # @return [Array<String>] for each fiber that waits, the longest wait first: the line of the
    #   program, and what for
    # @scheduling never waits
    # @thread any
    def places
      @names = Dump.names
      waits = @scheduler.waits.reject { |wait| wait[:kind] == :run || wait[:ready] }
      waits.sort_by { |wait| -wait[:waited] }.map do |wait|
        name = @names[wait[:owner]]
        "#{Dump.place(wait[:fiber].backtrace.to_a)} waits for #{Subject.of(wait)}" \
          "#{" in #{name}" if name}"
      end
    end

    private

    # The fiber that asks, when it belongs to this loop.
    def running
      return unless Fiber.scheduler.equal?(@scheduler) && !@scheduler.waiting?(Fiber.current)

      frames = caller.grep_v(/#{Regexp.escape(__FILE__)}/).first(@frames)
      ["#{Fiber.current.inspect} runs", *named(Fiber.current), *frames.map { |line| "    #{line}" }]
        .join("\n")
    end

    def describe(wait)
      lines = ["#{wait[:fiber].inspect} #{state(wait)}"]
      lines << "  resumed inside #{wait[:owner].inspect}" if wait[:owner] != wait[:fiber]
      lines.concat(named(wait[:owner]))
      frames = Native.user_frames(wait[:fiber].backtrace).first(@frames)
      lines.concat(frames.map { |line| "    #{line}" })
      lines.join("\n")
    end

    def named(fiber) = @names.key?(fiber) ? ["  is #{@names[fiber]}"] : []

    def state(wait)
      return "is about to run" if wait[:ready]

      text = format("waits %.3f s for %s", wait[:waited], Subject.of(wait))
      wait[:timeout] ? text + format(" (at most %.3f s more)", wait[:timeout]) : text
    end
  end
end
