# frozen_string_literal: true

# rubocop:disable Layout/LineLength -- a script or an expectation each, better on one line

require "minitest/autorun"
require "open3"
require "tmpdir"

# Repairs replace methods in place, only where asked, and can be left out.
class RepairsTest < Minitest::Test
  LIB = File.expand_path("../../lib", __dir__)
  WATCHED = "[IO.instance_method(:close), Thread.instance_method(:join), IO.method(:select), " \
            "File.instance_method(:flock), Fiber.instance_method(:raise)].map(&:source_location)"

  def ruby(script, env = {})
    output, status = Open3.capture2e(env, RbConfig.ruby, "-w", "-I#{LIB}", "-rneverblock", "-rsocket",
                                     "-e", script)
    assert_predicate status, :success?, output
    output
  end

  def test_nothing_is_replaced_before_the_first_loop_or_when_switched_off
    assert_equal "[nil, nil, nil, nil, nil]\n", ruby("p #{WATCHED}")
    assert_equal "[nil, nil, nil, nil, nil]\n", ruby("NB.run(repairs: false) { p #{WATCHED} }")
    assert_equal "[nil, nil, nil, nil, nil]\n",
      ruby("NB.run { p #{WATCHED} }", { "NB_REPAIRS" => "0" })
  end

  def test_only_what_this_ruby_needs_is_loaded
    installed = ruby("NB.run { puts NB::Repairs.installed }").split
    old = Gem::Version.new(RUBY_VERSION) < Gem::Version.new("3.2")

    assert_equal old, installed.include?("io_select")
    assert_equal Gem::Version.new(RUBY_VERSION) >= Gem::Version.new("3.4"),
      installed.include?("tcp_fast_fallback")
  end

  def test_ancestors_and_owners_stay_as_they_are
    script = "p [IO, File, TCPSocket, Thread, Fiber, Kernel].map(&:ancestors); " \
             "p IO.instance_method(:close).owner, Fiber.instance_method(:raise).owner"

    assert_equal ruby(script), ruby("NB.run { }; #{script}")
  end

  def test_fibers_that_meet_in_an_autoload_all_get_the_constant
    Dir.mktmpdir do |folder|
      File.write("#{folder}/slow.rb", "sleep 0.01; module Slow; end")
      script = "autoload :Slow, '#{folder}/slow.rb'; " \
               "p NB.run { NB.gather(*Array.new(3) { -> { Slow } }) + [NB.running?] }"
      assert_equal "[Slow, Slow, Slow, true]\n", ruby(script)
    end
  end

  def test_outside_of_a_loop_they_are_the_originals
    script = "r, w = IO.pipe; w << 1; p IO.select([r], nil, nil, 0)&.first&.size, " \
             "Thread.new { sleep }.join(0.01), r.close, (r.read rescue p($!.class))"

    assert_equal ruby(script), ruby("NB.run { }; #{script}")
  end

  def test_a_loop_runs_without_rubygems
    output, status = Open3.capture2e(RbConfig.ruby, "--disable-gems", "-Ilib", "-e",
                                     "require 'neverblock'; print NB.run { sleep 0.001; :done }")
    assert_predicate status, :success?, output
    assert_equal "done", output
  end
end
