# frozen_string_literal: true

require_relative "errors"

module NB
  class Server
    # The rack.input of a large body with `body_streaming: true`: reads wait in the fiber for what
    # the client sends, and nothing is kept. It cannot be read twice: it has no `rewind`, as Rack 3
    # allows.
    #
    # @example An upload that is hashed while it arrives
    #   digest = Digest::SHA256.new
    #   env["rack.input"].each_part { |part| digest << part }
    class StreamedInput
      # @api private
      def initialize(exchange)
        @exchange = exchange
        @rest = +"".b
        @taken = 0 # bytes read from @rest: cutting off each read would copy the remainder
        @lock = Mutex.new # of two threads or fibers that read, each gets a part of its own
      end

      # @param length [Integer, nil] bytes; nil: up to the end of the body
      # @return [String, nil] shorter than length only at the end; after it nil, or "" without a
      #   length
      # @raise [BodyError] if the body ends early, is malformed or too large
      # @scheduling may wait
      def read(length = nil, buffer = nil)
        @lock.synchronize do
          fill until (length && left >= length) || @ended
          take(length, buffer)
        end
      end

      # @param length [Integer] the maximum number of bytes
      # @return [String] what is available, at least one byte
      # @raise [EOFError] at the end of the body
      # @raise [BodyError] see {#read}
      # @scheduling may wait
      def readpartial(length, buffer = nil)
        @lock.synchronize do
          fill if left.zero?
          take(length, buffer) || raise(EOFError, "end of file reached")
        end
      end

      # @yieldparam part [String] as it arrived, at least one byte
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

      # Does not wait for bytes still to come. @return [nil] @scheduling never waits
      def close = nil

      # @return [String] fetched but unread bytes: a hijacker reads these first
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
