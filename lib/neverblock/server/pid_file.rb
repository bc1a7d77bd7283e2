# frozen_string_literal: true

require_relative "setup"
require_relative "signals"

module NB
  class Server
    # The file of the setting `pidfile`: names this process while it runs, for whoever sends it
    # signals.
    #
    # @api private
    class PidFile
      # @param path [String]
      def initialize(path)
        @path = @file = path
      end

      # @return [void]
      # @raise [SetupError] if it cannot be written, names another server that runs, or is no such
      #   file
      def write
        Setup.step("cannot write the pidfile") do
          refuse_to_overwrite if File.file?(@path)
          File.write(@path, "#{Process.pid}\n")
          @file = File.expand_path(@path) # the application may go to another folder
        end
      end

      # Removes the file, unless it is another process's.
      # @return [void]
      def remove
        File.unlink(@file) if File.file?(@file) && File.read(@file).to_i == Process.pid
      rescue SystemCallError
        nil # this user may not, any more; the next server finds that the process is gone
      end

      private

      def refuse_to_overwrite
        text = File.binread(@path, 100).to_s.strip
        refuse("is no pidfile: name another one") unless text.match?(/\A\d{0,10}\z/)
        refuse("names #{text}, a server that runs: end it, or name another file") if
          runs?(text.to_i)
      end

      # Servers catch our signals, and few other programs do. After a restart of the machine another
      # program may have the number of a server that is gone: that is no reason to refuse.
      def runs?(pid)
        return false if pid.zero? || pid == Process.pid
        return Signals.caught_by?(pid) if File.exist?("/proc/self/status")

        Process.kill(0, pid) == 1
      rescue Errno::ESRCH
        false
      rescue SystemCallError
        true # another user's
      end

      def refuse(why) = raise(SetupError, "cannot write the pidfile: #{@path} #{why}")
    end
  end
end
