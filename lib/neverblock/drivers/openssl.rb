# frozen_string_literal: true

require_relative "registry"

# An SSLSocket waits through io_wait, but asks nobody while its socket has bytes or room: a download
# from a fast sender stopped all other fibers. Its reads and writes count like those of a socket
# (loop/repairs/eager_sockets.rb).
NB::Drivers.register("openssl", constant: "OpenSSL::SSL::SSLSocket",
                                version: "OpenSSL::VERSION") do
  %i[sysread syswrite sysread_nonblock syswrite_nonblock].each do |name|
    NB::Native.count_calls(OpenSSL::SSL::SSLSocket, name)
  end
end
