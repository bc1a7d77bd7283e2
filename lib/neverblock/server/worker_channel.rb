# frozen_string_literal: true

require "io/wait"
require "socket"
require "timeout"
require_relative "../loop/io_users"

module NB
  class Server
    # One end of the connection between a master and a worker: each asks over it, and answers the
    # other. It is a socket pair that nobody else can open. A frame is `Q` or `A`, a number and a
    # length on one line, followed by that many bytes. Threads answer the questions, even while a
    # loop stands still. Nothing is sent while nobody asks.
    #
    # @api private
    class WorkerChannel
      HEAD = /\A([QA])(\d{1,18}) (\d{1,9})\n/n
      # The longest possible HEAD, in bytes: longer data that does not match is no frame.
      HEAD_BYTES = 30
      # How many questions are answered at a time; further ones are dropped.
      ANSWERS = 4
      # Bytes read at a time.
      PART = 1 << 18
      private_constant :HEAD, :HEAD_BYTES, :ANSWERS, :PART

      # @return [Array(WorkerChannel, WorkerChannel)] both ends
      def self.pair = UNIXSocket.pair.map { |io| new(io) }

      # @return [UNIXSocket]
      attr_reader :io

      # @param io [UNIXSocket]
      def initialize(io)
        @io = io
        @buffer = String.new
        @replies = {}
        @writing = Thread::Mutex.new # for threads that may wait for the other end
        @counting = Thread::Mutex.new
        @last = rand(1 << 40) # answers to a master before USR2 must not match a new question
        @answering = 0
      end

      # @param text [String]
      # @param within [Numeric] seconds, > 0
      # @return [String, nil] the answer; nil: none came in this time
      # @scheduling may wait
      # @thread any except the one that calls {#read}
      def ask(text, within:)
        id = @counting.synchronize { @last += 1 }
        reply = @replies[id] = Thread::Queue.new
        ::Timeout.timeout(within) do
          answer = reply.pop if @writing.synchronize { post("Q#{id} #{text.bytesize}\n#{text}") }
          answer unless answer.to_s.empty?
        end
      rescue ::Timeout::Error, IOError, SystemCallError, ThreadError
        nil
      ensure
        @replies.delete(id)
      end

      # Reads on a thread of its own until the other end closes.
      #
      # @param ended [#call] is called then, on that thread
      # @yieldparam text [String] a question
      # @yieldreturn [String] the answer
      # @return [self]
      def serve(ended: -> {}, &answer)
        Thread.new do
          IOUsers.only(@io)
          @io.wait_readable while read(&answer)
          ended.call
        rescue IOError, SystemCallError
          nil # closed at this end
        end
        self
      end

      # Reads what has arrived, without waiting.
      #
      # @yield [text] in a thread, as {#serve} does
      # @return [Boolean] false: the other end has closed
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
        begin_reply(id, text, &answer) if free # otherwise the question times out
      end

      # Nobody's end depends on an answer: without a thread, this question times out, too.
      def begin_reply(id, text, &answer)
        Thread.new { reply(id, text, &answer) }
      rescue ThreadError # the system allows no more
        @counting.synchronize { @answering -= 1 }
      end

      # If the other end is stuck, this thread waits; ANSWERS limits the number of such threads.
      def reply(id, text)
        answer = yield(text).b
        @writing.synchronize { @io.write("A#{id} #{answer.bytesize}\n", answer) }
      rescue IOError, SystemCallError, ThreadError
        nil # the other end is gone, or there is no thread to ask the workers with
      ensure
        @counting.synchronize { @answering -= 1 }
      end

      # A question is short: the socket takes it whole, or not at all if the other end is stuck.
      def post(frame) = @io.write_nonblock(frame, exception: false) == frame.bytesize
    end
  end
end
