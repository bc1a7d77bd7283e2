# frozen_string_literal: true

require "rbconfig"
require_relative "../legible"
require_relative "fiber_names"
require_relative "subject"

module NB
  # A list of every fiber of one loop: what it waits for, since when, and where in the program.
  #
  # @example
  #   warn NB.dump
  class Dump
    # The start of backtrace lines that are not the program's: ours and Ruby's, then other
    # libraries'.
    OURS = ["#{File.expand_path("..", __dir__)}/", "#{File.expand_path("..", __dir__)}.rb",
            "<internal:"].freeze
    LIBRARIES = [*OURS, *RbConfig::CONFIG.values_at("rubylibdir", "sitedir", "vendordir"),
                 *(Gem.path.map { |path| "#{path}/" } if defined?(Gem))].compact.freeze
    private_constant :OURS, :LIBRARIES

    @names = [-> { FiberNames.all }]
    @appendices = []

    class << self
      # Registers a block that gives names of fibers to each dump.
      #
      # @yieldreturn [Array<Array(Fiber, String)>]
      # @api private
      def name_fibers(&block) = @names << block

      # Registers a block that adds lines to the end of each dump.
      #
      # @yieldreturn [Array<String>] lines
      # @api private
      def append(&block) = @appendices << block

      # @return [Array(Array<String>, Array<String>)] the start of paths that are not the program's:
      #   those of all libraries, and only ours
      # @api private
      def others = [LIBRARIES, OURS]

      # @param frames [Array<String>] a backtrace
      # @return [String] the innermost line of the program
      # @api private
      def place(frames)
        others.each do |prefixes|
          at = frames.index { |frame| !frame.start_with?(*prefixes) }
          return frames[at..].take_while { |frame| line(frame) == line(frames[at]) }.last if at
        end
        "a fiber without a line of the program"
      end

      # Methods in C have the line from which they were called.
      def line(frame) = frame[/\A.*?:\d+:/]
      private :line

      # @return [String] the dumps of all loops of this process, the calling thread's first
      # @api private
      def all
        loops = ObjectSpace.each_object(Scheduler).reject(&:closed?)
        return "no loop runs in process #{Process.pid}" if loops.empty?

        mine, others = loops.partition { |one| one.equal?(Fiber.scheduler) }
        [*mine, *others].map { |one| new(one).to_s }.join("\n")
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
    # @raise [ArgumentError]
    def initialize(scheduler, frames: 12)
      raise ArgumentError, "scheduler must be an NB::Scheduler, got: #{scheduler.inspect}" unless
        scheduler.is_a?(Scheduler)
      raise ArgumentError, "frames: must be an Integer of 0 or more, got: #{frames.inspect}" unless
        frames.is_a?(Integer) && frames >= 0

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
       *Dump.appendices].flatten.compact.map { |line| Legible.line(line) }.join("\n")
    end

    # @return [Array<String>] for each waiting fiber, the longest wait first: the program's line,
    #   and what it waits for
    # @scheduling never waits
    # @thread any
    def places
      @names = Dump.names
      waits = @scheduler.waits.reject { |wait| wait[:kind] == :run || wait[:ready] }
      waits.sort_by { |wait| -wait[:waited] }.map do |wait|
        name = @names[wait[:owner]]
        words = [Dump.place(wait[:fiber].backtrace.to_a), "waits for", Subject.of(wait),
                 *(["in", name] if name)]
        words.map { |word| Legible.line(word) }.join(" ")
      end
    end

    private

    # The calling fiber, if it belongs to this loop.
    def running
      return unless Fiber.scheduler.equal?(@scheduler) && !@scheduler.waiting?(Fiber.current)

      frames = caller.grep_v(/#{Regexp.escape(__FILE__)}/).first(@frames)
      ["#{Fiber.current.inspect} runs", *named(Fiber.current), *frames.map { |line| "    #{line}" }]
    end

    def describe(wait)
      lines = ["#{wait[:fiber].inspect} #{state(wait)}"]
      lines << "  resumed inside #{wait[:owner].inspect}" if wait[:owner] != wait[:fiber]
      lines.concat(named(wait[:owner]))
      frames = Native.user_frames(wait[:fiber].backtrace).first(@frames)
      lines.concat(frames.map { |line| "    #{line}" })
    end

    def named(fiber) = @names.key?(fiber) ? ["  is #{@names[fiber]}"] : []

    def state(wait)
      return "is about to run" if wait[:ready]

      text = format("waits %.3f s for %s", wait[:waited], Subject.of(wait))
      wait[:timeout] ? text + format(" (at most %.3f s more)", wait[:timeout]) : text
    end
  end
end
