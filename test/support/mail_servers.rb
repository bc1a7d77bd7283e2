# frozen_string_literal: true

require "rbconfig"
require_relative "servers"

# Servers for mail clients: see mail_server.rb.
module MailServers
  PROGRAM = File.expand_path("mail_server.rb", __dir__)

  module_function

  # @param protocol [String] "smtp" or "imap"
  # @return [Servers::Server]
  def fetch(protocol)
    Servers.fetch(protocol) do |port, _|
      [RbConfig.ruby, "--disable-gems", PROGRAM, port.to_s, protocol]
    end
  end
end
