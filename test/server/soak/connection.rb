# frozen_string_literal: true

require "socket"
require_relative "../../support/reset"

module ServerSoak
  # An answer that is not what it must be.
  class Wrong < StandardError; end

  Answer = Struct.new(:status, :fields, :body)

  # A client's connection: writes what it is told, reads answers strictly.
  class Connection
    attr_reader :io

    def self.open(port)
      connection = new(TCPSocket.new("127.0.0.1", port))
      yield connection
    ensure
      connection&.close
    end

    def initialize(io)
      @io = io
      @io.setsockopt(:TCP, :NODELAY, true)
    end

    def write(*parts) = @io.write(*parts)
    def close = @io.closed? || @io.close

    # Ends it so that the server sees a reset.
    def reset
      Reset.close(@io)
    end

    def get(path, fields = "")
      write("GET #{path} HTTP/1.1\r\nHost: soak\r\n#{fields}\r\n")
    end

    # @return [Answer]
    # @raise [EOFError] when it ends within an answer, or before it
    def answer
      first = line("before an answer")
      status = first[/\AHTTP\/1\.1 (\d{3}) [A-Za-z -]+\z/, 1] or raise Wrong, first.inspect
      fields = {}
      until (field = line).empty?
        name, value = field.match(/\A([A-Za-z-]+): (.*)\z/)&.captures
        raise Wrong, "no field: #{field.inspect}" unless name

        fields[name.downcase] = value
      end
      return answer if status == "100"

      Answer.new(status.to_i, fields, body(fields))
    end

    # What is left until the server closes.
    def rest
      @io.read.to_s
    rescue Errno::ECONNRESET
      ""
    end

    private

    def line(place = "in an answer")
      line = @io.gets("\r\n").to_s
      raise EOFError, "the connection has ended #{place}" unless line.end_with?("\r\n")

      line.chomp("\r\n")
    rescue Errno::ECONNRESET
      raise EOFError, "the connection was reset #{place}"
    end

    def exactly(size)
      bytes = size.zero? ? "" : @io.read(size).to_s
      return bytes unless bytes.bytesize < size

      raise EOFError, "the connection has ended in a body, after #{bytes.bytesize} of #{size} bytes"
    rescue Errno::ECONNRESET
      raise EOFError, "the connection was reset in a body"
    end

    def body(fields)
      return exactly(Integer(fields["content-length"], 10)) if fields["content-length"]
      raise Wrong, "an answer without framing" unless fields["transfer-encoding"] == "chunked"

      all = +"".b
      while (size = Integer(line, 16)).positive?
        all << exactly(size)
        raise Wrong, "a chunk does not end" unless line.empty?
      end
      raise Wrong, "trailers" unless line.empty?

      all
    end
  end
end
