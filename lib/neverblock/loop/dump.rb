# frozen_string_literal: true

require "socket"

module NB
  # Every fiber of one loop: what it waits for, since when, and where in the program.
  #
  # @example
  #   warn NB.dump
  class Dump
    EVENTS = { "readable" => 1, "priority" => 2, "writable" => 4 }.freeze
    private_constant :EVENTS

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
      waits = @scheduler.waits.sort_by { |wait| -wait[:waited] }
      ["#{@scheduler.inspect}, pid #{Process.pid}", running, *waits.map { |wait| describe(wait) }]
        .compact.join("\n")
    end

    private

    # The fiber that asks, when it belongs to this loop.
    def running
      return unless Fiber.scheduler.equal?(@scheduler) && !@scheduler.waiting?(Fiber.current)

      frames = caller.grep_v(/#{Regexp.escape(__FILE__)}/).first(@frames)
      ["#{Fiber.current.inspect} runs", *frames.map { |line| "    #{line}" }].join("\n")
    end

    def describe(wait)
      lines = ["#{wait[:fiber].inspect} #{state(wait)}"]
      lines << "  resumed inside #{wait[:owner].inspect}" if wait[:owner] != wait[:fiber]
      lines.concat((wait[:fiber].backtrace || []).first(@frames).map { |line| "    #{line}" })
      lines.join("\n")
    end

    def state(wait)
      return "is about to run" if wait[:ready]

      text = format("waits %.3f s for %s", wait[:waited], subject(wait))
      wait[:timeout] ? text + format(" (at most %.3f s more)", wait[:timeout]) : text
    end

    def subject(wait)
      case wait[:kind]
      when :io then wait[:fds].map { |fd, mask| "#{events(mask)} fd #{fd}#{peer(fd)}" }.join(", ")
      when :select then "one of #{wait[:blocker].size} IOs: #{wait[:blocker].first(5).inspect}"
      when :sleep then wait[:timeout] ? "sleep" : "sleep without end, or a signal"
      when :block then "#{wait[:blocker].inspect}#{holder(wait[:blocker])}"
      when :resolve then "the address of #{wait[:blocker]}"
      when :process then "a child process"
      when :offload then "an offload thread"
      when :run then "the other fibers (NB.run)"
      else wait[:kind].to_s
      end
    end

    def holder(blocker)
      blocker.is_a?(Thread::Mutex) && blocker.owned? ? " (held by the current fiber)" : ""
    end

    def events(mask)
      EVENTS.filter_map { |name, bit| name if mask.anybits?(bit) }.join("/")
    end

    def peer(fd)
      io = BasicSocket.for_fd(fd)
      io.autoclose = false
      " (#{io.local_address.inspect_sockaddr} -> #{io.remote_address.inspect_sockaddr})"
    rescue SystemCallError, ArgumentError, SocketError
      ""
    end
  end
end
