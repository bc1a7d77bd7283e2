# frozen_string_literal: true

require "minitest/autorun"
require "open3"

# A child that goes on inside the block of NB.run, as daemons do: it has one fiber and ends cleanly.
class ForkTest < Minitest::Test
  LIB = File.expand_path("../../lib", __dir__)

  def ruby(script)
    Open3.capture2e(RbConfig.ruby, "-I#{LIB}", "-rneverblock", "-rsocket", "-e",
                    "$stdout.sync = true; #{script}").first
  end

  def test_a_child_that_goes_on_after_fork
    output = ruby("NB.run { if (pid = fork) then Process.wait(pid); puts :parent " \
                  "else sleep 0.01; puts :child end }")

    assert_equal "child\nparent\n", output
  end

  def test_a_daemon_waits_and_looks_up_names
    output = ruby("NB.run { Addrinfo.getaddrinfo('localhost', 1); Process.daemon(true, true); " \
                  "sleep 0.01; " \
                  "puts Addrinfo.getaddrinfo('localhost', 2, nil, :STREAM).any?; " \
                  "puts NB.offload { 3 } }")

    assert_equal "true\n3\n", output
  end

  # As the tests of applications and MSpec do. From Ruby 4.0 on a child has no scheduler, until it
  # runs a loop of its own.
  def test_the_methods_that_fork_can_be_replaced_by_aliases_for_a_while
    output = ruby(<<~'RUBY')
      place = Process.singleton_class
      %i[_fork daemon].each do |name|
        place.alias_method(:kept, name)
        Process.define_singleton_method(name) { |*| 42 }
        puts Process.public_send(name)
        place.alias_method(name, :kept)
      end
      p place.ancestors.first == place
      show = ->(what) { puts NB.async { what }.value }
      in_child = ->(what) { RUBY_VERSION >= "4" ? NB.run { show[what] } : show[what] }
      NB.run { (pid = fork) ? Process.wait(pid) : in_child[:child] }
      NB.run { Process.daemon(true, true) && in_child[:daemon] }
    RUBY

    assert_equal "42\n42\ntrue\nchild\ndaemon\n", output
  end

  ENDS = <<~'RUBY'
    ends = [-> { exit 8 }, -> { raise "boom" }, -> { Process.kill(:TERM, $$) && sleep }]
    places = [
      ->(work) { NB.run(&work) },
      ->(work) { NB.run { NB.async(&work).wait } },
      ->(work) { NB.run { NB.gather(work) } },
      ->(work) { NB.run { NB.async(background: true) { sleep }; NB.blocking { NB.run(&work) } } },
      ->(work) { Enumerator.new { |list| list << NB.run(&work) }.next }
    ]
    statuses = []
    places.product(ends).each do |place, ending|
      place.call(lambda do
        sleep(0.001) && ending.call unless (pid = fork)
        Process.wait(pid)
        statuses << [$?.exitstatus, $?.termsig]
      end)
    end
    p statuses.each_slice(ends.size).to_a.uniq
  RUBY

  def test_a_child_that_goes_on_ends_as_its_block_does
    output = ruby("$stderr.reopen(File::NULL); #{ENDS}")

    assert_equal "[[[8, nil], [1, nil], [nil, 15]]]\n", output
  end

  def test_what_a_child_raises_is_reported
    output = ruby("NB.run { NB.gather(-> { fork ? Process.wait : raise('boom') }) }")

    assert_match(/boom \(RuntimeError\)/, output)
  end

  # From Ruby 4.0 on the child has no scheduler, until it runs a loop of its own.
  def test_fibers_of_the_child_run_and_those_of_the_parent_do_not
    child = "Fiber.schedule { sleep 0.01; puts :childs }"
    child = "NB.run { #{child} }" if RUBY_VERSION >= "4"
    output = ruby("NB.run { Fiber.schedule { sleep 0.05; puts :parents }; " \
                  "Process.wait(fork { #{child} }) }")

    assert_equal %W[childs\n parents\n], output.lines.sort # whichever comes first, each once
  end

  # From Ruby 4.0 on the child has no loop. What has hung up is not waited for: it has no watch.
  def test_a_handler_forks_in_a_child_that_selects_what_has_hung_up
    skip "from Ruby 4.0 on a forked child has no scheduler" if RUBY_VERSION >= "4"
    output = ruby(<<~'RUBY')
      reader, writer = IO.pipe
      $stdin.reopen(reader)
      writer.close
      NB.run do
        pid = fork
        next Process.wait(pid) if pid

        loop, (one, other) = Fiber.scheduler, UNIXSocket.pair
        other.close
        trap("USR1") { pid = fork }
        Thread.new do
          Thread.pass until loop.waits.any? { |wait| wait[:kind] == :select && !wait[:ready] }
          Process.kill(:USR1, Process.pid)
        end
        selected = IO.select([UNIXSocket.pair.first], nil, [one], 0.2)
        Process.wait(pid) && exit!(0) if pid
        p selected
        begin
          Thread::Queue.new.pop
        rescue NB::DeadlockError => error
          puts error.class
        end
        exit!(0)
      end
    RUBY

    assert_equal "nil\nNB::DeadlockError\n", output
  end
end
