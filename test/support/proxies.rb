# frozen_string_literal: true

require "rbconfig"
require_relative "servers"

# Proxies in front of a server, each a process: see tcp_proxy.rb.
module Proxies
  PROGRAM = File.expand_path("tcp_proxy.rb", __dir__)

  module_function

  # @return [Integer] port where every answer of the server at `target` comes so late
  def late(target, delay = 0.1) = start("late", target, delay)

  # @return [Integer] port where a connection is reset after so many bytes of answer
  def cut(target, after:) = start("cut", target, 0, after)

  # @return [Integer] a port where nobody listens
  def nobody = 1

  def start(kind, target, *arguments)
    Servers.fetch([kind, target, *arguments].join("-")) do |port, _|
      [RbConfig.ruby, "--disable-gems", PROGRAM, port, target, *arguments].map(&:to_s)
    end.port
  end
end
