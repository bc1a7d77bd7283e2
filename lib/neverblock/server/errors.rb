# frozen_string_literal: true

module NB
  class Server
    # Raised in the waiting fiber of a request that has taken longer than `request_timeout`. Becomes
    # 503 unless the application rescues it.
    class RequestTimeoutError < ::Timeout::Error
      include NB::Error
    end

    # Raised in a request's fiber when its client has hung up, if `cancel_when_gone` is set.
    class ClientGoneError < ::IOError
      include NB::Error
    end

    # The configuration asks for something unavailable: an address, a file. The message names the
    # cure.
    class SetupError < ::StandardError
      include NB::Error
    end

    # Reading rack.input failed: the body ended early, came too slowly, is malformed, too large or
    # cannot be stored. Becomes 400, 408, 413, 503 or 507.
    class BodyError < ::IOError
      include NB::Error
    end
  end
end
