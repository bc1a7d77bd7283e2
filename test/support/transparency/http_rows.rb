# frozen_string_literal: true

require_relative "../http_servers"
require_relative "../transparency"

# What every HTTP client is asked, for a class of Transparency that has two methods:
#
#   get(url, timeout: 5)       one request on a connection of its own; returns the body
#   session(url, timeout: 5)   a Session that keeps its connection to the host of the url
#
# Over https they trust what OpenSSL trusts, or HTTPServers.authority. Both raise the library's own
# errors.
module HTTPRows
  # @!attribute get [Proc] takes a url, returns the body
  # @!attribute close [Proc]
  Session = Struct.new(:get, :close)

  # @param except [Array<Symbol>] rows that the class writes itself, or that cannot be
  # @param timeout [Float] how long a read timeout of 0.1 s takes: twice that, if it tries again
  def http_rows(except: [], timeout: 0.1)
    (%i[requests sessions tls names] - except).each { |rows| send(:"http_#{rows}") }
    http_timeouts(timeout)
    http_faults(kept: !except.include?(:sessions))
    include Helpers
  end

  private

  # What a library loads at its first request (rest-client computes for 75 ms) is not measured.
  def http_requests
    waits "a request on a connection of its own" do
      get(HTTPServers.url)
      measured(100) { |url| get(url) }
    end
  end

  def http_sessions
    waits "a request on a kept connection" do
      url = HTTPServers.url
      sessions = together { session(url).tap { |one| one.get.call(url) } }
      measured(100) { |late, i| sessions[i].get.call(late) }
    ensure
      sessions&.each { |one| one.close.call }
    end
  end

  # Fewer: each handshake computes for milliseconds, on both sides.
  def http_tls
    waits "a request over TLS, with the handshake" do
      url = HTTPServers.tls_url(100)
      assert_equal ["done"], measure(count: 10) { get(url) }.uniq
    end
  end

  def http_names
    waits "a request to a host name that resolves late" do
      url = HTTPServers.url(host: name_late)
      assert_equal ["done"], measure(delay: 0.3) { get(url) }.uniq
    end
  end

  def http_timeouts(seconds)
    waits "the library's own read timeout" do
      url = HTTPServers.url(3000)
      errors = measure(delay: seconds) { outcome { get(url, timeout: 0.1) } }
      assert_equal 1, errors.uniq.size
      assert_operator errors.first.first, :<, StandardError
    end
  end

  def http_faults(kept:)
    fails("refused") { get("http://127.0.0.1:#{Proxies.nobody}/") }
    fails("unknown host") { get("http://unknown.invalid/") }
    fails("read timeout") { get(HTTPServers.url(3000), timeout: 0.1) }
    fails("reset in mid-result") do
      port = Proxies.cut(HTTPServers.plain.port, after: 5_000)
      get("http://127.0.0.1:#{port}/?bytes=100000")
    end
    http_restart if kept
  end

  # A client may go on or raise: in a loop as without one.
  def http_restart
    define_method("test_#{rows.name}_the server has restarted meanwhile") do
      assert_equal(*[method(:plain), method(:enter)].map do |inside|
        outcome { inside.call { after_restart } }
      end)
    end
  end

  # For the bodies.
  module Helpers
    private

    # The answers of a server that takes so many milliseconds are right.
    def measured(ms)
      url = HTTPServers.url(ms)
      assert_equal ["done"], measure { |i| yield url, i }.uniq
    end

    def after_restart
      url = HTTPServers.url
      one = session(url)
      one.get.call(url)
      Servers.restart(HTTPServers.plain)
      one.get.call(url)
    ensure
      one&.close&.call
    end
  end
end
