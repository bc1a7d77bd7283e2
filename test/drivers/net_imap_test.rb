# frozen_string_literal: true

require_relative "../support/mail_servers"
require_relative "../support/transparency"
require "net/imap"

# net-imap. It reads in a thread of its own, one per connection.
class NetIMAPTest < Transparency
  library "net-imap", group: "Mail, SSH, messages", gems: %w[net-imap],
          server: -> { MailServers.fetch("imap") },
          against: -> { "our own IMAP server" }

  waits "connect and LOGIN" do
    clients = measure(count: 20, delay: 0.2) { connect(late) } # the greeting, and LOGIN
  ensure
    finish(clients)
  end

  waits "FETCH" do
    clients = together { connect(late).tap { |imap| imap.select("INBOX") } }
    assert_equal ["hello"], measure { |i| clients[i].fetch(1, "BODY[]").first.attr["BODY[]"] }.uniq
  ensure
    finish(clients)
  end

  waits "connect by a host name that resolves late" do
    name = name_late
    clients = measure(count: 20, delay: 0.3) { connect(server.port, host: name) }
  ensure
    finish(clients)
  end

  fails "refused" do
    connect(Proxies.nobody)
  end

  fails "unknown host" do
    connect(server.port, host: "unknown.invalid")
  end

  fails "reset in mid-result" do
    connect(Proxies.cut(server.port, after: 40)) # beyond the greeting
  end

  private

  def connect(port, host: "127.0.0.1")
    Net::IMAP.new(host, port: port).tap { |imap| imap.login("nb", "secret") }
  end

  def finish(clients) = clients && together(clients.size) { |i| clients[i].disconnect }
  def late = Proxies.late(server.port)
end
