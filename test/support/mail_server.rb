# frozen_string_literal: true

require_relative "threaded_server"

# As much SMTP and IMAP as a client's first mail takes, in plain threads; a program of its own.
# It says what a real server says to these commands, keeps nothing, and knows no others.
#
#   ruby mail_server.rb PORT smtp|imap
class MailServer
  include ThreadedServer

  SMTP = {
    "EHLO" => "250-localhost\r\n250-SIZE 10000000\r\n250 8BITMIME\r\n",
    "MAIL" => "250 2.1.0 Ok\r\n", "RCPT" => "250 2.1.5 Ok\r\n",
    "DATA" => "354 End data with <CR><LF>.<CR><LF>\r\n",
    "RSET" => "250 2.0.0 Ok\r\n", "NOOP" => "250 2.0.0 Ok\r\n", "QUIT" => "221 2.0.0 Bye\r\n"
  }.freeze
  IMAP = {
    "CAPABILITY" => "* CAPABILITY IMAP4rev1\r\n", "LOGIN" => "", "NOOP" => "",
    "SELECT" => "* 1 EXISTS\r\n* 0 RECENT\r\n* FLAGS (\\Seen)\r\n", "LOGOUT" => "* BYE\r\n",
    "FETCH" => "* 1 FETCH (BODY[] {5}\r\nhello)\r\n", "SEARCH" => "* SEARCH 1\r\n"
  }.freeze

  def initialize(port, protocol)
    listen(port)
    @protocol = protocol
  end

  private

  def converse(client)
    @protocol == "smtp" ? smtp(client) : imap(client)
  end

  def smtp(client)
    client.write("220 localhost ESMTP\r\n")
    while (line = client.gets)
      verb = line[/\A\w+/].to_s.upcase
      client.write(SMTP.fetch(verb, "502 5.5.2 Command not recognized\r\n"))
      message(client) if verb == "DATA"
      return if verb == "QUIT"
    end
  end

  def message(client)
    nil until client.gets.chomp == "."
    client.write("250 2.0.0 Ok: queued\r\n")
  end

  def imap(client)
    client.write("* OK [CAPABILITY IMAP4rev1] ready\r\n")
    while (line = client.gets)
      tag, verb = line.split
      answer = IMAP[verb.upcase]
      result = answer ? "OK done" : "BAD unknown command"
      client.write("#{answer}#{tag} #{result}\r\n")
      return if verb == "LOGOUT"
    end
  end
end

if $PROGRAM_NAME == __FILE__
  port, protocol = ARGV
  MailServer.new(Integer(port), protocol).run
end
