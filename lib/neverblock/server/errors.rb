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

    # Reading rack.input failed: the body ended early or is malformed (400), or see the subclasses.
    # Unless the application rescues it, the request is answered with {#http_status}.
    class BodyError < ::IOError
      include NB::Error

      # @return [Integer] the status for the client
      # @scheduling never waits
      def http_status = 400
    end

    # The body came too slowly: see `body_timeout` and `body_bytes_per_second`.
    class BodyTimeoutError < BodyError
      # @return [Integer] 408
      # @scheduling never waits
      def http_status = 408
    end

    # The body is larger than `body_bytes`.
    class BodyTooLargeError < BodyError
      # @return [Integer] 413
      # @scheduling never waits
      def http_status = 413
    end

    # The body's chunk extensions and trailers are too long.
    class BodyFieldsTooLargeError < BodyError
      # @return [Integer] 431
      # @scheduling never waits
      def http_status = 431
    end

    # All bodies together have reached `bodies_file_bytes`.
    class BodyRoomError < BodyError
      # @return [Integer] 503
      # @scheduling never waits
      def http_status = 503
    end

    # The body could not be written to a temporary file.
    class BodyStorageError < BodyError
      # @return [Integer] 507
      # @scheduling never waits
      def http_status = 507
    end
  end
end
