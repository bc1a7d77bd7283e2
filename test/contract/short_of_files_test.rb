# frozen_string_literal: true

# rubocop:disable Layout/LineLength -- a script or an expectation each, better on one line

require_relative "../support/script_case"

# When a process may open no more files: what needs none in plain Ruby needs none in a loop.
class ShortOfFilesTest < ScriptCase
  FULL = <<~'RUBY'
    require "tempfile"
    def when_full
      soft, hard = Process.getrlimit(:NOFILE)
      files = []
      begin
        Process.setrlimit(:NOFILE, Dir.children("/proc/self/fd").map(&:to_i).max + 1, hard)
        loop { files << File.open(File::NULL) }
      rescue Errno::EMFILE
        yield
      ensure
        Process.setrlimit(:NOFILE, soft, hard)
        files.each(&:close)
      end
    end
    def outcome
      yield
    rescue SystemCallError, SocketError => error
      [error.class, error.message]
    end
  RUBY

  script "large writes and reads of an open file", FULL + <<~'RUBY', out: "[300000, 300000, 300000]\n"
    inside do
      Tempfile.create("full") do |file|
        file.sync = true
        sleep 0.001
        when_full do
          p [file.write("x" * 300_000), file.pwrite("y" * 300_000, 0), file.pread(400_000, 0).size]
        end
      end
    end
  RUBY

  script "names", FULL + <<~'RUBY', out: %([Errno::EMFILE, "Too many open files - getaddrinfo"]\n127.0.0.1\n)
    inside do
      outcome { Addrinfo.getaddrinfo("warm.invalid", 80) } # loads what it needs
      sleep 0.001
      when_full do
        p(outcome { Addrinfo.getaddrinfo("localhost", 80, nil, :STREAM) })
        puts Addrinfo.getaddrinfo("127.0.0.1", 80, nil, :STREAM).first.ip_address
      end
    end
  RUBY
end
# rubocop:enable Layout/LineLength
