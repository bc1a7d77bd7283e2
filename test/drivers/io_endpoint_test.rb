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
      IO::Endpoint::Wrapper.default.schedule { p defined?(Async::Task) && Async::Task.current?.class }
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
      assert_equal ["#{task}\n", ""], [result.out, result.err]
    end
  end
end
