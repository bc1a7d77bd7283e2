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
      include Enumerable # of lines, as IO

      # @return [Integer] bytes read so far
      # @scheduling never waits
      attr_reader :pos

      # @api private
      def initialize(exchange)
        @exchange = exchange
        @rest = +"".b
        @pos = 0
        @taken = 0 # bytes read from @rest: cutting off each read would copy the remainder
        @lock = Mutex.new # of two threads or fibers that read, each gets a part of its own
      end

      # @param length [Integer, nil] bytes; nil: up to the end of the body
      # @return [String, nil] shorter than length only at the end; after it nil, or "" without a
      #   length
      # @raise [BodyError] if the body ends early, is malformed or too large
      # @raise [ArgumentError, TypeError] for a negative length, or one that is no number
      # @scheduling may wait
      def read(length = nil, buffer = nil)
        length &&= bytes(length)
        @lock.synchronize do
          fill until (length && left >= length) || @ended
          cut(length, buffer)
        end
      end

      # @param length [Integer] the maximum number of bytes
      # @return [String] what is available, at least one byte
      # @raise [EOFError] at the end of the body
      # @raise [BodyError, ArgumentError, TypeError] see {#read}
      # @scheduling may wait
      def readpartial(length, buffer = nil)
        length = bytes(length)
        @lock.synchronize do
          fill if left.zero? && length.positive?
          cut(length, buffer) || raise(EOFError, "end of file reached")
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

      # As IO#gets: up to a line feed, or to another separator, and no longer than a limit.
      #
      # @param ends [Array<String, Integer, nil>] separator (nil: none; "": empty lines), limit in
      #   bytes, or both
      # @param chomp [Boolean] whether to leave the separator out
      # @return [String, nil] the next line, nil at the end
      # @raise [BodyError] see {#read}
      # @raise [ArgumentError, TypeError] for other arguments
      # @scheduling may wait
      def gets(*ends, chomp: false)
        separator, limit = line_ends(*ends)
        @lock.synchronize { limit == 0 ? +"" : next_line(separator, limit, chomp) }
      end

      # @param ends see {#gets}
      # @return [String] the next line
      # @raise [EOFError] at the end
      # @raise [BodyError, ArgumentError, TypeError] see {#gets}
      # @scheduling may wait
      def readline(...) = gets(...) || raise(EOFError, "end of file reached")

      # @param ends see {#gets}
      # @return [Array<String>] all lines to come
      # @raise [BodyError, ArgumentError, TypeError] see {#each}
      # @scheduling may wait
      def readlines(...) = each(...).to_a

      # @return [Integer, nil] the next byte, nil at the end
      # @raise [BodyError] see {#read}
      # @scheduling may wait
      def getbyte = read(1)&.ord

      # @param ends see {#gets}
      # @yieldparam line [String]
      # @return [self]
      # @raise [BodyError, ArgumentError, TypeError] see {#gets}; also for a limit of 0
      # @scheduling may wait
      def each(*ends, chomp: false)
        return to_enum(:each, *ends, chomp: chomp) unless block_given?
        raise ArgumentError, "invalid limit: 0 for each" if line_ends(*ends).last == 0

        while (line = gets(*ends, chomp: chomp))
          yield line
        end
        self
      end
      alias each_line each

      # @return [Boolean] whether all of the body has been read
      # @raise [BodyError] see {#read}
      # @scheduling may wait
      def eof?
        @lock.synchronize do
          fill if left.zero?
          left.zero?
        end
      end
      alias eof eof?

      # @return [Encoding] as of everything it gives
      # @scheduling never waits
      def external_encoding = Encoding::BINARY

      # Is so already. @return [self] @scheduling never waits
      def binmode = self

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
          cut([left, 1].max)
        end
      end

      def fill
        part = @ended ? nil : @exchange.body_part
        return @ended = true unless part

        @rest, @taken = unread, 0 if @taken.positive?
        @rest << part
      end

      def cut(length = left, buffer = nil)
        part = @rest.byteslice(@taken, length || left)
        size = part.bytesize
        part = nil if part.empty? && length&.positive?
        part = buffer.replace(part || "") && part && buffer if buffer
        pass(size) # last: a buffer that takes nothing loses nothing
        part
      end

      def pass(size)
        @taken += size
        @pos += size
      end

      def bytes(length)
        raise TypeError, "no implicit conversion of #{length.class} into Integer" unless
          length.respond_to?(:to_int)

        length = length.to_int
        length.negative? ? raise(ArgumentError, "negative length #{length} given") : length
      end

      # A single argument is a separator if it is nil or a String, and else a limit.
      def line_ends(first = "\n", *others)
        given = others.size + 1
        raise ArgumentError, "wrong number of arguments (given #{given}, expected 0..2)" unless
          given <= 2

        separator = String.try_convert(first)
        return line_ends("\n", first) unless separator || first.nil? || others.any?
        raise TypeError, "no implicit conversion of #{first.class} into String" unless
          separator || first.nil?

        limit = others.first
        limit &&= limit.respond_to?(:to_int) ? limit.to_int : bytes(limit)
        [separator, (limit unless limit&.negative?)]
      end

      def next_line(separator, limit, chomp)
        paragraph = separator&.empty?
        skip_feeds if paragraph
        mark = paragraph ? "\n\n" : separator&.b
        line = cut([line_bytes(mark, limit), 1].max) or return
        whole = mark && line.end_with?(mark)
        skip_feeds if paragraph && whole
        chomp && whole ? chomped(line, mark) : line
      end

      # Waits for the whole line. @return [Integer] how long it is
      def line_bytes(mark, limit)
        searched = 0
        until (place = mark && @rest.index(mark, @taken + searched)) || @ended ||
              (limit && left >= limit)
          searched = [left - mark.to_s.bytesize + 1, 0].max
          fill
        end
        [place ? place + mark.bytesize - @taken : left, *limit].min
      end

      def skip_feeds
        loop do
          fill until left.positive? || @ended
          return unless @rest.getbyte(@taken) == 10

          pass(1)
        end
      end

      def chomped(line, mark) = mark == "\n" ? line.chomp : line.delete_suffix(mark)
    end
  end
end
