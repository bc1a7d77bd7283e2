# frozen_string_literal: true

module NB
  module Rails
    # Middleware: a request whose body our server refused (too large, too slow, cut off) is answered
    # with that status. It is the client's fault, but Rails would answer 500, since its error pages
    # read the parameters again, and would report an error of the application. Puma refuses such a
    # request before Rails sees it. So do we, unless the application runs while the body arrives
    # (`body_streaming`, `Expect: 100-continue`).
    class RefusedBody
      # @param app [#call]
      def initialize(app) = @app = app

      # Waits as the application does.
      #
      # @param env [Hash]
      # @return [Array] the application's response, or the refusal
      def call(env)
        @app.call(env)
      rescue StandardError => error
        refused = cause_of(error) or raise
        [refused.http_status, { "content-type" => "text/plain; charset=utf-8" },
         ["#{refused.message}\n"]]
      end

      private

      # Rails' parsers raise a ParseError because of it. The server may not be loaded.
      def cause_of(error)
        return unless defined?(NB::Server::BodyError)

        error = error.cause until error.nil? || error.is_a?(NB::Server::BodyError)
        error
      end
    end
  end
end
