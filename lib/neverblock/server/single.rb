# frozen_string_literal: true

require_relative "banner"
require_relative "errors"
require_relative "metrics"
require_relative "snapshot"

module NB
  class Server
    # How a {Launcher} serves without workers. If USR2 has started it in place of a master, that
    # master's workers serve until it does.
    #
    # @api private
    module Single
      private

      # @return [Boolean] false: it cannot serve, but workers of the program before USR2 do
      def run_single
        server = begin_single or return false
        serve { server.run { booted } }
        @notify.stopping
        true
      end

      # All that may fail before the server accepts anything.
      def begin_single
        server = new_server
        start_control(**answers(server))
        server.app = @notify.feed { load_app } # after USR2 systemd watches us meanwhile
        @out.write(Banner.text(@config, server.addresses, server.options)) unless @config.quiet?
        receive_signals(server)
        @config.call_hooks(:on_worker_boot, 0)
        server
      rescue Exception => error # rubocop:disable Lint/RescueException -- raised where nobody serves
        raise if @config.handover.workers.empty? || @stopping

        leave_to_old_workers(error)
      end

      # Their new master has a control socket of its own.
      def leave_to_old_workers(error)
        @control&.stop
        @control = nil
        @config.blame(error.is_a?(SetupError) ? error.message :
                        "#{error.full_message}The application does not start")
        nil
      end

      def booted
        @notify.ready
        feed_watchdog
        @config.handover.end_workers
        call_hooks(:on_booted)
      end

      # Called inside the loop: if that hangs, systemd hears nothing.
      def feed_watchdog
        return unless @notify.interval

        FiberNames.schedule("the heartbeat for systemd") do
          loop do
            @notify.watchdog
            Fiber.scheduler.idle { sleep @notify.interval }
          end
        end
      end

      def answers(server)
        {stats: -> { {workers: [server.stats.merge(pid: Process.pid, ready: server.ready?)]} },
         metrics: lambda do
           Metrics.samples(0 => server.metrics).merge(nb_ready: [[{}, server.ready? ? 1 : 0]])
         end,
         ready: -> { server.ready? }, requests: -> { server.requests },
         snapshot: ->(query) { server.snapshot(**Snapshot.detail(query)) }}
      end
    end
  end
end
