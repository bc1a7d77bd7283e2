# frozen_string_literal: true

require_relative "errors"

module NB
  class Server
    # The rack.input of a large body with `body_streaming: true`: reads wait in the fiber for what
    # the client sends, and nothing is kept. It cannot be read twice, as Rack 3 allows: no `rewind`.
    #
    # @example An upload that is hashed while it arrives
    #   digest = Digest::SHA256.new
    #   env["rack.input"].each_part { |part| digest << part }
    class StreamedInput
      # @api private
      def initialize(exchange)
        @exchange = exchange
        @rest = +"".b
        @taken = 0 # bytes of @rest: to cut each read off would copy what is left
        @lock = Mutex.new # what two threads or fibers read goes to one of them
      end

      # @param length [Integer, nil] bytes; nil: all that comes
      # @return [String, nil] fewer than length only at the end; then nil, or "" without a length
      # @raise [BodyError] when the body ends early, is malformed or too large
      # @scheduling may wait
      def read(length = nil, buffer = nil)
        @lock.synchronize do
          fill until (length && left >= length) || @ended
          take(length, buffer)
        end
      end

      # @param length [Integer] bytes at most
      # @return [String] what is there, at least a byte
      # @raise [EOFError] at the end of the body
      # @raise [BodyError] see {#read}
      # @scheduling may wait
      def readpartial(length, buffer = nil)
        @lock.synchronize do
          fill if left.zero?
          take(length, buffer) || raise(EOFError, "end of file reached")
        end
      end

      # @yieldparam part [String] as it arrived, at least a byte
      # @return [self]
      # @raise [BodyError] see {#read}
      # @scheduling may wait
      def each_part
        while (part = next_part)
          yield part
        end
        self
      end

      # @return [String, nil] the next line with its line feed, nil at the end
      # @raise [BodyError] see {#read}
      # @scheduling may wait
      def gets
        @lock.synchronize do
          searched = 0
          until (feed = @rest.index("\n", @taken + searched)) || @ended
            searched = left
            fill
          end
          take(feed ? feed + 1 - @taken : [left, 1].max)
        end
      end

      # @yieldparam line [String]
      # @return [self]
      # @raise [BodyError] see {#read}
      # @scheduling may wait
      def each
        return to_enum unless block_given?

        while (line = gets)
          yield line
        end
        self
      end

      # @return [Boolean] whether all of the body has been read
      # @raise [BodyError] see {#read}
      # @scheduling may wait
      def eof?
        @lock.synchronize do
          fill if left.zero?
          left.zero?
        end
      end

      # What has not come is not waited for. @return [nil] @scheduling never waits
      def close = nil

      # @return [String] what was fetched and not read: a hijacker's next bytes
      # @api private
      def unread = @rest.byteslice(@taken, left)

      private

      def left = @rest.bytesize - @taken

      def next_part
        @lock.synchronize do
          fill if left.zero?
          take([left, 1].max)
        end
      end

      def fill
        part = @ended ? nil : @exchange.body_part
        return @ended = true unless part

        @rest, @taken = unread, 0 if @taken.positive?
        @rest << part
      end

      def take(length = left, buffer = nil)
        part = @rest.byteslice(@taken, length || left)
        @taken += part.bytesize
        part = nil if part.empty? && length&.positive?
        buffer ? buffer.replace(part || "") && part && buffer : part
      end
    end
  end
end
