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

  # From Ruby 4.0 on the child has no scheduler, until it runs a loop of its own.
  def test_fibers_of_the_child_run_and_those_of_the_parent_do_not
    child = "Fiber.schedule { sleep 0.01; puts :childs }"
    child = "NB.run { #{child} }" if RUBY_VERSION >= "4"
    output = ruby("NB.run { Fiber.schedule { sleep 0.05; puts :parents }; " \
                  "Process.wait(fork { #{child} }) }")

    assert_equal %W[childs\n parents\n], output.lines.sort # whichever comes first, each once
  end
end
