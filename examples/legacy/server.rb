# frozen_string_literal: true

# The server of "Ruby Networking on Steroids" (2008): answers each request after one second.
# Changed: nothing but this head.
#
# Run: ruby examples/legacy/server.rb

require 'eventmachine' # rubocop:disable Style/StringLiterals

class Server < EM::Connection
  # handle requests here
  def receive_data data # rubocop:disable Lint/UnusedMethodArgument
    # set the respnonse to be sent after 1 second
    EM.add_timer(1) do
      send_data "HTTP/1.1 200 OK\r\n\r\ndone"
      close_connection_after_writing
    end
  end
end

EM.run do
  EM.start_server('0.0.0.0',8080, Server) # rubocop:disable Style/StringLiterals
end
