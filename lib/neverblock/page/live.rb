# frozen_string_literal: true

require_relative "source"

module NB
  class Page
    # Sends one snapshot per second to each viewer, as server-sent events. A viewer is a request
    # with its fiber. Nothing runs while nobody looks.
    #
    # @api private
    module Live
      # The maximum number of viewers of a process, which is also at most half of its fibers;
      # further ones get 503, and poll less often.
      VIEWERS = 16
      # Seconds between two events.
      INTERVAL = 1
      # The content: places, but no backtraces; the page asks for these when it shows them.
      DETAIL = "fibers=100&requests=100&frames=0"
      private_constant :INTERVAL, :DETAIL

      @count = 0

      class << self
        # @param server [Server] the one that serves the viewer
        # @return [Array, nil] a response; nil: there are too many viewers
        def body(server)
          return if @count >= most(server) || NB.stopping?

          # Counts the viewer when the body is called: the response may be dropped before that.
          [200, {"content-type" => "text/event-stream", "x-accel-buffering" => "no"},
           ->(stream) { send_to(stream, server) }]
        end

        # A forked child has no viewers.
        # @return [void]
        def forked = @count = 0

        private

        # The others are the application's.
        def most(server) = [VIEWERS, server.options[:fibers] / 2].min

        # Ends when the viewer has gone or the server drains.
        def send_to(stream, server)
          @count += 1
          limit = most(server)
          return stream.write("event: full\ndata: #{limit}\n\n") if @count > limit

          stream.write("retry: 2000\n\n")
          while NB.until_stop { stream.write("data: #{Source.json(server, DETAIL)}\n\n") }
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
