# frozen_string_literal: true

require_relative "registry"
require_relative "../loop/repairs"

# dalli waits in the loop by itself. But a timeout or a cancel while it connects (when it asks for
# the server's version) leaves the connection open and that answer unread. The next `get` gets the
# version, and each later one the value of the key before it (dalli 3 and 4), or an error (5). In a
# loop such a connection is closed.
NB::Drivers.register("dalli", constant: "Dalli::Protocol::Base", version: "Dalli::VERSION",
                              versions: [">= 3.2", "< 6"]) do |driver|
  NB::Repairs.replace(Dalli::Protocol::Base, :connect) do |original|
    proc do
      connected = false
      original.bind_call(self).tap { connected = true }
    ensure
      close if !connected && driver.in_loop?
    end
  end
end
