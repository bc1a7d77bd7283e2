# frozen_string_literal: true

require "socket"

# Ports for servers that other programs open a moment later. They are outside the range that the
# kernel gives to connections and to servers that ask for any port, so nothing else takes them.
module Ports
  FIRST = 10_000
  RANGE = "/proc/sys/net/ipv4/ip_local_port_range"

  # @return [Integer]
  def self.free
    last = File.read(RANGE).to_i - 1
    last = 32_767 if last < FIRST + 1000
    100.times do
      port = Random.new.rand(FIRST..last) # minitest seeds the other one
      return TCPServer.open("127.0.0.1", port) { port }
    rescue Errno::EADDRINUSE
      next
    end
    raise "no free port between #{FIRST} and #{last}"
  end
end
