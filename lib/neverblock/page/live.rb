# frozen_string_literal: true

require_relative "source"

module NB
  class Page
    # Sends a snapshot per second to each viewer, as server-sent events. A viewer is a request, with
    # its fiber. Nothing runs while nobody looks.
    #
    # @api private
    module Live
      # Viewers of a process at a time; more get 503, and ask by themselves, less often.
      VIEWERS = 16
      # Seconds between two events.
      INTERVAL = 1
      # What is sent: places, but no backtraces; the page asks for these when it shows them.
      DETAIL = "fibers=100&requests=100&frames=0"
      private_constant :INTERVAL, :DETAIL

      @count = 0

      class << self
        # @return [Array, nil] a response; nil: there are too many viewers
        def body
          return if @count >= VIEWERS || NB.stopping?

          # The place is taken when the body is called: a response may be dropped before.
          [200, {"content-type" => "text/event-stream", "x-accel-buffering" => "no"},
           method(:send_to)]
        end

        # In a forked child nobody looks.
        # @return [void]
        def forked = @count = 0

        private

        # Ends when the viewer has gone, and when the server drains.
        def send_to(stream)
          @count += 1
          return stream.write("event: full\ndata: #{VIEWERS}\n\n") if @count > VIEWERS

          stream.write("retry: 2000\n\n")
          while NB.until_stop { stream.write("data: #{Source.json(DETAIL)}\n\n") }
            NB.until_stop { sleep INTERVAL }
          end
        rescue SystemCallError, IOError
          nil # the viewer has gone
        ensure
          @count -= 1
          stream.close
        end
      end

      Fork.in_child { forked }
    end
  end
end
