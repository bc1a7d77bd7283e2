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
end
