# frozen_string_literal: true

require "socket"
require "tmpdir"
require_relative "certificates"

# Connected pairs of every stream class of Ruby's socket hierarchy (A1), made with plain Ruby.
# Each maker gets the contract (for #strand and #keep) and returns [client, server].
module Streams
  module_function

  def tcp(contract)
    server = TCPServer.new("127.0.0.1", 0)
    client = TCPSocket.new("127.0.0.1", server.addr[1])
    contract.keep(client, server.accept)
  ensure
    server&.close
  end

  def socket_tcp(contract)
    server = Socket.new(:INET, :STREAM)
    server.bind(Addrinfo.tcp("127.0.0.1", 0))
    server.listen(1)
    client = Socket.new(:INET, :STREAM)
    client.connect(server.local_address)
    contract.keep(client, server.accept.first)
  ensure
    server&.close
  end

  def unix(contract)
    with_path do |path|
      UNIXServer.open(path) { |server| contract.keep(UNIXSocket.new(path), server.accept) }
    end
  end

  def socket_unix(contract)
    with_path do |path|
      server = Socket.unix_server_socket(path)
      contract.keep(Socket.unix(path), server.accept.first)
    ensure
      server&.close
    end
  end

  def unix_pair(contract) = contract.keep(*UNIXSocket.pair)
  def socket_pair(contract) = contract.keep(*Socket.pair(:UNIX, :STREAM))

  def ssl_tcp(contract) = ssl(contract, *tcp(contract))
  def ssl_socket(contract) = ssl(contract, *socket_tcp(contract))
  def ssl_unix(contract) = ssl(contract, *unix(contract))

  def ssl(contract, client, server)
    accepting = contract.strand { Certificates.server(server).tap(&:accept) }
    client = Certificates.client(client).tap(&:connect)
    contract.keep(client, accepting.value.tap { |server| server.write("!") }) # rubocop:disable Lint/ShadowingOuterLocalVariable
    client.read(1) # and the session tickets before it: closing with them unread resets
    [client, accepting.value]
  end

  def with_path
    Dir.mktmpdir("nb") { |directory| yield File.join(directory, "s") }
  end

  SOCKETS = {
    "TCPSocket" => method(:tcp), "Socket tcp" => method(:socket_tcp),
    "UNIXSocket" => method(:unix), "Socket unix" => method(:socket_unix),
    "UNIXSocket pair" => method(:unix_pair), "Socket pair" => method(:socket_pair)
  }.freeze
  SSL = {
    "SSL on TCPSocket" => method(:ssl_tcp), "SSL on Socket" => method(:ssl_socket),
    "SSL on UNIXSocket" => method(:ssl_unix)
  }.freeze
  ALL = { **SOCKETS, **SSL }.freeze
end
