# frozen_string_literal: true

require "socket"

module NB
  class Server
    # The path of a UNIX socket that this process is about to listen on.
    #
    # @api private
    module SocketFile
      # The longest path that fits into sun_path of unix(7), in bytes.
      LONGEST = 108
      # A socket's file, by its whole path: the application may go to another folder (Dir.chdir).
      Mark = Struct.new(:path, :inode)
      private_constant :LONGEST, :Mark

      module_function

      # Removes a socket whose server has died. The socket of a living server stays.
      #
      # @param path [String]
      # @param own [Boolean] also removes this process's own socket: it listened there before it
      #   executed its program again (USR2), and a child may have inherited the socket
      # @return [void]
      # @raise [Errno::EADDRINUSE] if a process listens there
      # @raise [Errno::EEXIST] if the path is another kind of file
      # @raise [Errno::ENAMETOOLONG]
      # @see https://man7.org/linux/man-pages/man7/unix.7.html SO_PEERCRED
      def free(path, own: false)
        raise Errno::ENAMETOOLONG, "unix://#{path}" if path.bytesize > LONGEST
        return if path.start_with?("\0") || !File.exist?(path) # an abstract name is no file's
        raise Errno::EEXIST, "unix://#{path}" unless File.socket?(path)

        pid = listener(path)
        raise Errno::EADDRINUSE, "unix://#{path}" unless pid.nil? || (own && pid == Process.pid)

        File.unlink(path)
      end

      # @param path [String] on which this process has just begun to listen
      # @return [Mark, nil] nil: there is no file of this name
      def mark(path)
        Mark.new(File.expand_path(path), File.stat(path).ino) if
          !path.start_with?("\0") && File.socket?(path)
      end

      # Removes the file, unless another server has made one of the same name since.
      #
      # @param mark [Mark, nil]
      # @return [void]
      def remove(mark)
        return unless mark && File.socket?(mark.path)

        File.unlink(mark.path) if File.stat(mark.path).ino == mark.inode
      rescue SystemCallError
        nil # this user may not, any more; the next server finds that nobody listens there
      end

      # @return [Integer, nil] the pid of the listening process; 0: it is unknown here
      def listener(path)
        socket = Socket.new(:UNIX, :STREAM, 0)
        socket.connect_nonblock(Addrinfo.unix(path))
        return 0 unless Socket.const_defined?(:SO_PEERCRED)

        socket.getsockopt(:SOCKET, :PEERCRED).unpack("i").first
      rescue Errno::ECONNREFUSED
        nil
      rescue Errno::EAGAIN
        0 # its queue is full
      ensure
        socket.close
      end
      private_class_method :listener
    end
  end
end
