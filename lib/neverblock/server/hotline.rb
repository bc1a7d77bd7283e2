# frozen_string_literal: true

require "io/wait"
require "socket"
require "timeout"

module NB
  class Server
    # One end of the line between a master and a worker, on which each asks and answers the other:
    # a pair of sockets that nobody else can open. Frames are `Q` or `A`, a number and a length on
    # one line, then so many bytes. Questions are answered by threads, also while a loop stands
    # still. Nothing passes while nobody asks.
    #
    # @api private
    class Hotline
      HEAD = /\A([QA])(\d{1,18}) (\d{1,9})\n/n
      # Bytes of the longest HEAD: what is longer and matches none is no frame.
      HEAD_BYTES = 30
      # Questions that are answered at a time; further ones are dropped.
      ANSWERS = 4
      # Bytes read at a time.
      PART = 1 << 18
      private_constant :HEAD, :HEAD_BYTES, :ANSWERS, :PART

      # @return [Array(Hotline, Hotline)] both ends
      def self.pair = UNIXSocket.pair.map { |io| new(io) }

      # @return [UNIXSocket]
      attr_reader :io

      # @param io [UNIXSocket]
      def initialize(io)
        @io = io
        @buffer = String.new
        @replies = {}
        @writing = Thread::Mutex.new # by threads that may wait for the other end
        @counting = Thread::Mutex.new
        @last = rand(1 << 40) # what a master asked before USR2 does not answer a new question
        @answering = 0
      end

      # @param text [String]
      # @param within [Numeric] seconds, > 0
      # @return [String, nil] nil: no answer in this time
      # @scheduling may wait
      # @thread any but the one that calls {#read}
      def ask(text, within:)
        id = @counting.synchronize { @last += 1 }
        reply = @replies[id] = Thread::Queue.new
        ::Timeout.timeout(within) do
          answer = reply.pop if @writing.synchronize { post("Q#{id} #{text.bytesize}\n#{text}") }
          answer unless answer.to_s.empty?
        end
      rescue ::Timeout::Error, IOError, SystemCallError
        nil
      ensure
        @replies.delete(id)
      end

      # Reads on a thread of its own until the other end is closed.
      #
      # @yieldparam text [String] a question
      # @yieldreturn [String] the answer
      # @return [self]
      def serve(&answer)
        Thread.new do
          @io.wait_readable while read(&answer)
        rescue IOError, SystemCallError
          nil # it was closed here
        end
        self
      end

      # Takes in what has come, without a wait.
      #
      # @yield [text] in a thread, as {#serve} does
      # @return [Boolean] false: nothing comes any more
      def read(&answer)
        return false if closed?

        bytes = @io.read_nonblock(PART, exception: false)
        return true if bytes == :wait_readable
        return close if bytes.nil?

        take(&answer) if @buffer << bytes
        @buffer.bytesize < HEAD_BYTES || @buffer.match?(HEAD) || close
      rescue SystemCallError
        close
      end

      def closed? = @io.closed?

      # @return [false]
      def close
        @io.close
        @replies.each_value { |queue| queue << "" }
        false
      end

      private

      def take(&answer)
        while (head = HEAD.match(@buffer))
          length = head.end(0) + head[3].to_i
          break if @buffer.bytesize < length

          frame = @buffer.slice!(0, length)
          handle(head[1], head[2].to_i, frame.byteslice(head.end(0)..), &answer)
        end
      end

      def handle(kind, id, text, &answer)
        return @replies[id]&.push(text.force_encoding(Encoding::UTF_8)) if kind == "A"

        free = @counting.synchronize { @answering < ANSWERS && @answering += 1 }
        Thread.new { reply(id, text, &answer) } if free # else whoever asks has no answer in time
      end

      # The other end may be stuck: then this thread waits, and ANSWERS bounds how many do.
      def reply(id, text)
        answer = yield(text).b
        @writing.synchronize { @io.write("A#{id} #{answer.bytesize}\n", answer) }
      rescue IOError, SystemCallError
        nil # it is gone
      ensure
        @counting.synchronize { @answering -= 1 }
      end

      # A question is short: the socket takes all of it, or nothing when the other end is stuck.
      def post(frame) = @io.write_nonblock(frame, exception: false) == frame.bytesize
    end
  end
end
