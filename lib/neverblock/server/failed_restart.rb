# frozen_string_literal: true

require_relative "errors"

module NB
  class Server
    # What a master does if USR2 has started it and it finds a mistake in its configuration or in
    # the application: it starts no worker, and the workers of the previous program serve until the
    # next USR2.
    #
    # @api private
    module FailedRestart
      private

      # @param reason [String]
      # @return [nil]
      def hold(reason)
        @held = true
        @out.write("#{reason}, so the old workers continue. Fix it and send USR2 again.\n")
        @notify.ready # the reloading is over
        nil
      end

      # @return what the block returns; nil if it failed and old workers continue
      def prepare
        yield
      rescue SetupError => error
        raise if @old_workers.empty?

        hold(error.message)
      end

      # Nobody replaces the old workers. A master without any would keep clients waiting forever.
      def abandoned
        raise SetupError, "the last old worker has ended, and no new one can serve: fix what was " \
                          "reported at USR2 and start the server again"
      end

      # After USR2 systemd watches us meanwhile.
      def load_app
        @loading = true
        @notify.feed { @launcher.load_app } unless ending?
      rescue Exception => error # rubocop:disable Lint/RescueException -- raised where nobody serves
        raise if @old_workers.empty?

        hold("#{error.full_message}The application does not load")
      ensure
        @loading = false
      end
    end
  end
end
