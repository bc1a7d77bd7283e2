# frozen_string_literal: true

require_relative "../support/mail_servers"
require_relative "../support/transparency"
require "net/smtp"

# net-smtp.
class NetSMTPTest < Transparency
  library "net-smtp", group: "Mail, SSH, messages", gems: %w[net-smtp],
          server: -> { MailServers.fetch("smtp") },
          against: -> { "our own SMTP server" }

  waits "connect, EHLO" do
    clients = measure(delay: 0.2) { start(late) } # the greeting, and EHLO
  ensure
    clients&.each(&:finish)
  end

  waits "a mail" do
    clients = together { start(late) }
    measure(delay: 0.4) { |i| send_by(clients[i]) } # MAIL, RCPT, DATA, the mail
  ensure
    clients && together { |i| clients[i].finish }
  end

  waits "connect by a host name that resolves late" do
    name = name_late
    clients = measure(delay: 0.3) { start(server.port, host: name) }
  ensure
    clients&.each(&:finish)
  end

  waits "the library's own read timeout" do
    port = Proxies.late(server.port, 3.0)
    errors = measure { outcome { start(port, timeout: 0.1) } }
    assert_equal [Net::ReadTimeout], errors.map(&:first).uniq
  end

  fails "refused" do
    start(Proxies.nobody)
  end

  fails "unknown host" do
    start(server.port, host: "unknown.invalid")
  end

  fails "read timeout" do
    start(Proxies.late(server.port, 1.0), timeout: 0.1)
  end

  fails "reset in mid-result" do
    start(Proxies.cut(server.port, after: 30))
  end

  private

  def start(port, host: "127.0.0.1", timeout: 5)
    smtp = Net::SMTP.new(host, port, starttls: false)
    smtp.read_timeout = timeout
    smtp.start("localhost")
  end

  def send_by(smtp)
    smtp.send_message("Subject: hello\r\n\r\nhello\r\n", "from@example.com", "to@example.com")
  end

  def late = Proxies.late(server.port)
end
