# frozen_string_literal: true

require_relative "../support/script_case"

# Terminals in raw mode with a minimum of 0: a read that finds nothing ends, and no poller says so.
class TerminalTest < ScriptCase
  OPEN = <<~'RUBY'
    require "io/console"
    require "pty"
    master, slave = PTY.open
  RUBY

  script "a minimum of nothing ends a read at once", <<~RUBY, out: "nil\n"
    #{OPEN}
    inside { p slave.getch(min: 0) }
  RUBY

  script "a minimum of nothing with a time ends a read then", <<~RUBY, out: "nil\n"
    #{OPEN}
    inside { p slave.getch(min: 0, time: 0.3) }
  RUBY

  script "bytes that come in time are read", <<~RUBY, out: "\"a\"\n"
    #{OPEN}
    inside do
      strand = go { sleep 0.1; master.print "a" }
      p slave.getch(min: 0, time: 20)
      finish strand
    end
  RUBY

  script "a full terminal stops only those who write to it", <<~RUBY, out: "300000\n300000\n"
    #{OPEN}
    slave.raw!
    inside do
      strand = go do
        sleep 0.1
        got = 0
        got += master.readpartial(65_536).bytesize while got < 600_000
      end
      p slave.write("x" * 300_000)
      p 3_000.times.sum { slave.write("y" * 99, "\\n") }
      finish strand
    end
  RUBY

  script "a full terminal lets a writer be cancelled", <<~RUBY, out: "nil\n:late\n"
    #{OPEN}
    slave.raw!
    inside do
      p Timeout.timeout(0.2) { slave.write("x" * 300_000) }
    rescue Timeout::Error
      p nil
      sleep 0.01
      p :late
    end
  RUBY
end
