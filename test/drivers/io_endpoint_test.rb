# frozen_string_literal: true

require "minitest/autorun"
require_relative "../support/subprocess"

# The servers of io-endpoint run each connection in a task of async, if async is cured. Each case
# in a process of its own.
class IOEndpointTest < Minitest::Test
  SCRIPT = <<~'RUBY'
    require "async"
    require "io/endpoint" unless ENV["LATE"]
    NB::Drivers.off(ENV["OFF"]) if ENV["OFF"]
    NB.run do
      require "io/endpoint"
      wrapper = IO::Endpoint::Wrapper.default
      ended = wrapper.schedule { p defined?(Async::Task) && Async::Task.current?.class }
      waiting = wrapper.schedule { sleep 0.01 }
      p [ended, waiting].map { |fiber| [fiber.class, fiber.alive?] }
      sleep 0.01
    end
  RUBY

  { "cured" => {},
    "cured_in_a_loop" => { "LATE" => "1" },
    "async_not_cured" => { "NB_DRIVERS" => "-async" },
    "async_off" => { "OFF" => "async" },
    "itself_not_cured" => { "NB_DRIVERS" => "-io-endpoint" },
    "itself_off" => { "OFF" => "io-endpoint" } }.each do |name, environment|
    define_method("test_#{name}") do
      result = Subprocess.ruby(SCRIPT, env: environment)
      task = name.start_with?("cured") ? "Async::Task" : "NilClass"
      assert_equal ["#{task}\n[[Fiber, false], [Fiber, true]]\n", ""], [result.out, result.err]
    end
  end

  # As after async's own loop; no fiber is left, for which the loop would wait.
  def test_fibers_of_a_server_can_be_killed
    skip "Fiber#kill is of Ruby 3.3" unless Fiber.method_defined?(:kill)
    result = Subprocess.ruby(<<~'RUBY')
      require "async"
      require "io/endpoint"
      require "io/endpoint/unix_endpoint"
      require "tmpdir"
      Dir.mktmpdir do |folder|
        NB.run do
          server = IO::Endpoint::UNIXEndpoint.new("#{folder}/socket").bound
          task = nil
          fibers = server.accept { |peer, _| (task = Async::Task.current) && peer.read }
          client = UNIXSocket.new("#{folder}/socket")
          sleep 0.01 until task
          fibers.each(&:kill)
          client.close
          server.close
          p fibers.map(&:alive?), task.wait
        end
      end
    RUBY
    assert_equal ["[false]\n\"\"\n", ""], [result.out, result.err]
  end
end
