# frozen_string_literal: true

require "openssl"
require "socket"
require "timeout"
require_relative "../../support/clock"

module StopMatrix
  # One that asks all the time, on a kept connection or on a new one for each request, and writes
  # down what it did not get: when, and what came instead.
  class Client
    include Clock

    # Seconds for one answer.
    PATIENCE = 60
    # A draining server closes a connection on which nothing has come for a second. Who was silent
    # for half of it has to expect that.
    SILENCE = 0.5
    NOBODY = [Errno::ECONNREFUSED, Errno::ENOENT].freeze
    Event = Struct.new(:at, :what)

    attr_reader :answered, :refused, :lost, :first

    # @param address [Array] for {#open}: :tcp or :tls and a port, or :unix and a path
    def initialize(name, address, keep:)
      @name = name
      @kind, @place = address
      @keep = keep
      @answered = 0
      @refused = []
      @lost = []
    end

    def run
      ask("/#{@name}/#{@count = @count.to_i + 1}") until @over
    ensure
      hang_up
    end

    # Asks one thing, on a connection of its own.
    def once(path)
      ask(path)
    ensure
      hang_up
    end

    def over! = @over = true

    private

    def ask(path)
      at = clock
      fresh = @socket.nil?
      return unless (@socket ||= open(at))

      answer = Timeout.timeout(PATIENCE) { exchange(path) }
      return note(path) if answer

      hang_up
      return if !fresh && @silent > SILENCE

      @lost << Event.new(at, "no answer on a #{fresh ? "new" : "kept"} connection (#{@how})")
    rescue Timeout::Error
      hang_up
      @lost << Event.new(at, "no answer in #{PATIENCE} s")
    end

    def note(path)
      @answered += 1
      @first ||= clock
      @last = clock
      @lost << Event.new(clock, "#{@status} #{@body}") unless
        @status.include?(" 200 ") && @body.start_with?("#{path} ")
      hang_up if !@keep || @closes
    end

    def open(at)
      return UNIXSocket.new(@place) if @kind == :unix

      socket = TCPSocket.new("127.0.0.1", @place)
      socket.setsockopt(:TCP, :NODELAY, true)
      @kind == :tls ? secure(socket) : socket
    rescue *NOBODY
      @refused << clock # not when it began to ask: a signal may lie between
      sleep 0.01
      nil
    rescue SystemCallError, OpenSSL::SSL::SSLError => error
      socket&.close
      @lost << Event.new(at, "no connection: #{error.message}")
      nil
    end

    def secure(socket)
      context = OpenSSL::SSL::SSLContext.new
      context.verify_mode = OpenSSL::SSL::VERIFY_NONE
      OpenSSL::SSL::SSLSocket.new(socket, context).tap do |secure|
        secure.sync_close = true
        secure.connect
      end
    end

    # @return [Boolean] false: the connection ended before the answer did
    def exchange(path)
      @how = "end"
      close = "Connection: close\r\n" unless @keep
      @silent = @last ? clock - @last : 0 # for as long as the write fails
      @socket.write("GET #{path} HTTP/1.1\r\nHost: a\r\n#{close}\r\n")
      @silent = clock - @last if @last # however late this thread had its turn
      @status = @socket.gets("\r\n") or return false
      fields = {}
      while (line = @socket.gets("\r\n")) && line != "\r\n"
        name, value = line.chomp.split(": ", 2)
        fields[name.downcase] = value
      end
      @closes = fields["connection"] == "close"
      size = fields["content-length"].to_i
      @body = @socket.read(size)
      @body&.bytesize == size
    rescue SystemCallError, OpenSSL::SSL::SSLError, IOError => error
      @how = error.message
      false
    end

    def hang_up
      @socket&.close
      @socket = nil
    rescue SystemCallError, OpenSSL::SSL::SSLError
      @socket = nil
    end
  end
end
