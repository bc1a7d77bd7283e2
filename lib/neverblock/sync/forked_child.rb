# frozen_string_literal: true

require_relative "../errors"
require_relative "frames"

module NB
  # The code that runs in a process forked by {ForkedWorker}: it answers requests until its socket
  # closes.
  #
  # Nothing else of the parent may run in the child: not its other fibers with their `ensure`, not
  # its `at_exit`, not its scheduler. So the work has a thread of its own, and the process ends with
  # `exit!`.
  #
  # @api private
  class ForkedChild
    # The parent's signal handlers refer to the parent's state.
    SIGNALS = %w[INT TERM HUP QUIT USR1 USR2 CHLD].freeze
    private_constant :SIGNALS

    # @param frames [Frames] the child's end
    # @yield for each request, with its arguments
    def initialize(frames, &work)
      @frames = frames
      @work = work
    end

    # Never returns: the code after the fork is the parent's.
    #
    # @scheduling always waits, without a scheduler
    def run
      status = 1
      # A blocking fiber, so waiting for the thread does not wake the parent's scheduler.
      Fiber.new(blocking: true) do
        SIGNALS.each { |name| Signal.trap(name, "SYSTEM_DEFAULT") }
        status = Thread.new { serve }.value || 0 # Thread#kill ends it as `exit` does
      end.resume
    ensure
      begin
        flush
      ensure
        Process.exit!(status)
      end
    end

    private

    def serve
      Thread.current.report_on_exception = false
      @frames.write("") # it has begun
      while (request = @frames.read)
        answer = answer_to(request)
        flush # printed output comes before the answer
        @frames.write(answer)
      end
      0
    rescue SystemExit => error
      error.status
    rescue Errno::EPIPE, Errno::ECONNRESET
      0 # nobody wants the answer any more
    end

    def answer_to(request)
      value = @work.call(*load(request))
    rescue SystemExit
      raise
    rescue Exception => error # rubocop:disable Lint/RescueException -- raised again, in the parent
      dump_error(error)
    else
      dump_value(value)
    end

    def load(request)
      Marshal.load(request)
    rescue ArgumentError, NameError, TypeError => error
      raise ProcessError, "the arguments cannot be read in process #{Process.pid}, which knows " \
                          "what its parent knew when it was forked: #{error.message}"
    end

    def dump_value(value)
      Marshal.dump([:value, value])
    rescue StandardError => error # `marshal_dump` of a foreign class may raise this
      dump_error(ProcessError.new("the value, of class #{value.class}, cannot be sent to another " \
                                  "process: #{error.message}"))
    end

    def dump_error(error)
      backtrace = error.backtrace || []
      Marshal.dump([:error, error, backtrace])
    rescue StandardError
      text = "#{error.class} (#{error.message}), which cannot be sent to another process as it is"
      Marshal.dump([:error, ProcessError.new(text), backtrace])
    end

    def flush
      $stdout.flush
      $stderr.flush
    rescue IOError, SystemCallError
      nil # closed, or nobody reads
    end
  end
end
