# frozen_string_literal: true

# A stand-in for Shopify's toxiproxy-server, which the tests of redis-client start, and which no
# package brings: as much of its HTTP interface and of its faults as they use.
#
#   ruby toxiproxy.rb -port 8475
require "json"
require "socket"

# A port that leads to another server, until it is switched off or given a toxic.
class ToxicProxy
  def initialize(name, listen, upstream)
    @name = name
    @listen = listen
    @upstream = upstream
    @toxics = {}
    @open = []
    enable
  end

  def to_h = { name: @name, listen: @listen, upstream: @upstream, enabled: !@server.nil? }

  def enable
    return if @server

    host, port = @listen.split(":")
    @server = server = TCPServer.new(host.empty? ? "127.0.0.1" : host, Integer(port))
    @listen = "#{host}:#{server.addr[1]}"
    Thread.new { loop { serve(server.accept) } }.report_on_exception = false
  end

  def disable
    @server&.close
    @server = nil
    [@open.shift, @open.shift].each { |socket| socket&.close } until @open.empty?
  end

  def add(toxic) = @toxics[toxic.fetch("name")] = toxic

  def remove(name) = @toxics.delete(name)

  def clear = @toxics.clear

  private

  def serve(client)
    server = TCPSocket.new(*@upstream.split(":"))
    @open.push(client, server)
    Thread.new { pump("upstream", client, server) }
    Thread.new { pump("downstream", server, client) }
  rescue SystemCallError
    client.close
  end

  def pump(stream, from, to)
    left = nil
    loop do
      bytes = from.readpartial(65_536)
      toxic = @toxics.values.find { |one| one["stream"] == stream }
      left = toxic && toxic["type"] == "limit_data" && (left || toxic["attributes"]["bytes"])
      to.write(left ? bytes.byteslice(0, left) : bytes) if pass?(toxic)
      break if (left && (left -= bytes.bytesize) <= 0) || (toxic && toxic["type"] == "timeout")
    end
  rescue IOError, SystemCallError
    nil # one of them is gone
  ensure
    [from, to].each(&:close)
  end

  # Waits as the toxic says; it may be taken away meanwhile.
  # @return [Boolean] whether the bytes go on afterwards
  def pass?(toxic)
    ms = toxic && toxic["attributes"].values_at("latency", "timeout").compact.first or return true

    deadline = now + (ms / 1000.0)
    sleep 0.005 while now < deadline && @toxics.value?(toxic)
    toxic["type"] == "latency"
  end

  def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
end

# The HTTP interface.
class ToxicControl
  def initialize(port)
    @proxies = {}
    @server = TCPServer.new("127.0.0.1", port)
  end

  def run
    loop { Thread.new(@server.accept) { |socket| answer(socket) } }
  end

  private

  def answer(socket)
    verb, path = socket.gets.split
    size = 0
    while (line = socket.gets.chomp) != ""
      size = line[/\d+/].to_i if line.downcase.start_with?("content-length:")
    end
    body = size.zero? ? {} : JSON.parse(socket.read(size))
    status, body = call(verb, path.split("/").drop(1), body)
    body = JSON.generate(body)
    socket.write("HTTP/1.1 #{status} .\r\nContent-Type: application/json\r\nConnection: close\r\n" \
                 "Content-Length: #{body.bytesize}\r\n\r\n#{body}")
  rescue SystemCallError, IOError, NoMethodError
    nil # a connection that asks nothing
  ensure
    socket.close
  end

  def call(verb, words, body)
    case [verb, *words]
    in ["POST", "populate"] then [201, { proxies: body.map { |one| populate(one).to_h } }]
    in ["GET", "proxies"] then [200, @proxies.transform_values(&:to_h)]
    in ["POST", "reset"] then [204, @proxies.each_value { |one| [one.enable, one.clear] } && {}]
    in ["POST", "proxies", name] then [200, switch(@proxies.fetch(name), body["enabled"]).to_h]
    in ["POST", "proxies", name, "toxics"] then [200, @proxies.fetch(name).add(body)]
    in ["DELETE", "proxies", name, "toxics", toxic] then [200, @proxies.fetch(name).remove(toxic)]
    else [404, {}]
    end
  end

  def populate(one)
    name = one.fetch("name")
    @proxies[name]&.disable
    @proxies[name] = ToxicProxy.new(name, one.fetch("listen"), one.fetch("upstream"))
  end

  def switch(proxy, enabled)
    enabled ? proxy.enable : proxy.disable
    proxy
  end
end

trap(:INT) { exit! } # so the tests end it
ToxicControl.new(Integer(ARGV.last)).run
