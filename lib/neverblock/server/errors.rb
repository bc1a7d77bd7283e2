# frozen_string_literal: true

module NB
  class Server
    # Raised in a request's fiber at its wait when the request has taken longer than
    # `request_timeout`. Answered with 503 unless the application rescues it.
    class RequestTimeoutError < ::Timeout::Error
      include NB::Error
    end

    # Raised in a request's fiber when its client has hung up and `cancel_when_gone` is set.
    class ClientGoneError < ::IOError
      include NB::Error
    end

    # What the configuration asks for cannot be had: an address, a file. The message says the cure.
    class SetupError < ::StandardError
      include NB::Error
    end

    # Reading rack.input failed: the body ended early, came too slowly, is malformed or too large.
    # Answered with 400, 408 or 413.
    class BodyError < ::IOError
      include NB::Error
    end
  end
end
