# frozen_string_literal: true

require "minitest/autorun"
require_relative "../support/subprocess"

# Forked children that may open no file when they begin: they have no loop, and do no harm.
class ChildShortOfFilesTest < Minitest::Test
  # The numbers of the parent's epoll and eventfd belong to other files by then.
  def test_a_child_that_cannot_open_a_backend_leaves_other_files_open
    result = Subprocess.ruby(<<~'RUBY')
      $stdout.sync = true
      refuse = Module.new do
        def after_fork
          soft, hard = Process.getrlimit(:NOFILE)
          Process.setrlimit(:NOFILE, 3, hard)
          super
        ensure
          Process.setrlimit(:NOFILE, soft, hard)
        end
      end
      NB::Native.singleton_class.prepend(refuse)
      NB.run do
        sleep 0.001
        parent = Process.pid
        begin
          pid = fork { puts "child" }
        rescue Errno::EMFILE => error
          puts error.class
          files = Array.new(20) { File.open(File::NULL) }
          Fiber.set_scheduler(nil)
          puts files.all?(&:stat)
          exit!(7)
        end
        Process.wait(pid)
        puts $?.exitstatus
      end
    RUBY

    assert_equal "Errno::EMFILE\ntrue\n7\n", result.out, result.err
  end

  # Their fibers' stacks are freed with the threads that the child does not have.
  def test_a_child_that_raises_as_it_begins_keeps_no_loop_of_other_threads
    result = Subprocess.ruby(<<~'RUBY')
      $stdout.sync = true
      fails = Module.new do
        def after_fork
          Process.setrlimit(:NOFILE, 3, LIMITS.last)
          super
        rescue Errno::EMFILE
          Process.setrlimit(:NOFILE, *LIMITS)
          Array.new(8) { Thread.new { eval("[" * 200 + "]" * 200) } }.each(&:join) # on their stacks
          GC.start
          exit!(7)
        end
      end
      NB::Native.singleton_class.prepend(fails)
      LIMITS = Process.getrlimit(:NOFILE)
      NB.run do
        begun = Thread::Queue.new
        3.times { Thread.new { NB.run { begun << Fiber.scheduler; sleep } } }
        loops = Array.new(3) { begun.pop }
        Process.wait(fork { exit!(1) })
        puts loops.size, $?.exitstatus
      end
      exit!(0)
    RUBY

    assert_equal "3\n7\n", result.out, result.err
  end
end
