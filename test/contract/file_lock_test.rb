# frozen_string_literal: true

require_relative "../support/script_case"

# The locks of fcntl(2), which belong to a process: it loses all that it has on a file as soon as it
# closes any fd of this file.
class FileLockTest < ScriptCase
  script "a large write loses no lock of fcntl", <<~'RUBY', out: "EAGAIN\nEAGAIN\nfree\n"
    require "fcntl"
    require "tempfile"
    WHOLE = [Fcntl::F_WRLCK, IO::SEEK_SET, 0, 0, 0].pack("ssx4qqi") # struct flock
    def lock_of_other(path)
      reader, writer = IO.pipe
      pid = fork do
        File.open(path, "r+") { |file| file.fcntl(Fcntl::F_SETLK, WHOLE) }
        writer << "free"
        exit!(0)
      rescue Errno::EAGAIN
        writer << "EAGAIN"
        exit!(0)
      end
      writer.close
      Process.wait(pid)
      reader.read
    end
    inside do
      Tempfile.create("locked") do |file|
        file.sync = true
        file.fcntl(Fcntl::F_SETLK, WHOLE)
        puts lock_of_other(file.path)
        file.write("x" * 300_000)
        puts lock_of_other(file.path)
        File.open(file.path, &:itself)
        puts lock_of_other(file.path)
      end
    end
  RUBY
end
