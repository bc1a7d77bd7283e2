# frozen_string_literal: true

require "minitest/autorun"
require "open3"
require "rbconfig"

# What is left of us in other people's classes when all is switched off: nothing but Ruby's own
# extension point for forks, without which a child would run its parent's loop.
class SwitchesTest < Minitest::Test
  LIBRARIES = %w[mysql2 sequel connection_pool dalli sqlite3 typhoeus patron grpc sentry-ruby
                 rack/timeout/base hiredis-client opentelemetry active_record net/http].freeze
  ALWAYS = ["#<Class:Process>#_fork", "#<Class:Process>#daemon"].freeze
  PROGRAM = <<~RUBY.freeze
    require "support/patches"
    #{LIBRARIES.inspect}.each { |name| require name }
    require "neverblock"
    NB.run(repairs: ARGV[0] != "without") { sleep 0.001 }
    puts Patches.all
  RUBY

  def patches(environment = {}, argument = "with")
    paths = [File.expand_path("../../lib", __dir__), File.expand_path("..", __dir__)]
    environment = { "NB_DRIVERS" => nil, "NB_REPAIRS" => nil, **environment }
    output, status = Open3.capture2e(environment, RbConfig.ruby, "-W0",
                                     *paths.map { |path| "-I#{path}" },
                                     "-e", PROGRAM, "--", argument)
    assert status.success?, output
    output.lines(chomp: true)
  end

  def test_switched_off_nothing_is_left
    assert_equal ALWAYS, patches({ "NB_DRIVERS" => "0", "NB_REPAIRS" => "0" })
    assert_equal ALWAYS, patches({ "NB_DRIVERS" => "0" }, "without")
  end

  def test_each_switch_leaves_the_other_part
    assert_includes patches({ "NB_DRIVERS" => "0" }), "File#flock"
    drivers = patches({ "NB_REPAIRS" => "0" })
    assert_includes drivers, "Dalli::Protocol::Base#connect"
    refute_includes drivers, "File#flock"
    refute_includes patches({ "NB_DRIVERS" => "-dalli" }), "Dalli::Protocol::Base#connect"
  end
end
