# frozen_string_literal: true

require "minitest/autorun"
require "tmpdir"
require_relative "../support/subprocess"

# A library is cured as soon as it and NeverBlock are both loaded, in any order, once, and not when
# switched off. The library here is a file of its own, as a gem is.
class RegistryTest < Minitest::Test
  LIBRARY = <<~RUBY
    module SlowLibrary
      VERSION = "1.2.3"
      require "slow_library/client"
      COMPLETE = true
    end
  RUBY
  CLIENT = "module SlowLibrary; class Client; def ask = :blocking; end; end"
  # As the files of lib/neverblock/drivers do it. The client is complete when it is cured.
  CURE = <<~RUBY
    CURED = []
    def register(name = "slow", versions: "~> 1.2", **options)
      NB::Drivers.register(name, constant: "SlowLibrary::Client", features: %w[slow_library],
                           version: "SlowLibrary::VERSION", versions: versions, **options) do |driver|
        CURED << SlowLibrary::COMPLETE
        yield driver if block_given?
      end
    end
    def state(name = "slow") = NB::Drivers.status.find { |row| row.name == name }.to_s
  RUBY

  def ruby(script, env = {})
    Dir.mktmpdir("nb") do |folder|
      Dir.mkdir(File.join(folder, "slow_library"))
      File.write(File.join(folder, "slow_library.rb"), LIBRARY)
      File.write(File.join(folder, "slow_library/client.rb"), CLIENT)
      result = Subprocess.ruby(CURE + script, env: env, options: ["-w", "-I", folder])
      assert_predicate result.status, :success?, result.err
      yield result.err if block_given?
      result.out
    end
  end

  def test_a_library_that_was_there_before
    assert_equal "[true]\nslow 1.2.3 on\n",
      ruby("require 'slow_library'; register; p CURED; puts state") { |err| assert_empty err }
  end

  def test_a_library_that_comes_later_is_cured_when_its_require_returns
    assert_equal "slow not loaded\n[]\n[true]\nslow 1.2.3 on\n",
      ruby("register; puts state; p CURED; require 'slow_library'; p CURED; puts state") do |err|
        assert_empty err
      end
  end

  # A program loads it alone with the gemspec of a gem that has `path:` in its Gemfile.
  VERSIONS = { "active_record" => "active_record/version", "i18n" => "i18n/version",
               "mqtt" => "mqtt/version", "stomp" => "stomp/version" }.freeze

  def test_the_version_of_a_library_is_not_the_library
    VERSIONS.each do |name, file|
      result = Subprocess.ruby(<<~RUBY)
        #{CURE}
        require "#{file}"
        NB.run { sleep 0 }
        puts state("#{name}")
        require "#{name}"
        puts state("#{name}")
      RUBY
      before, after = result.out.lines(chomp: true)
      assert_empty result.err, name
      assert_match(/ not loaded\z/, before, name)
      assert_match(/ on\z/, after, name)
    end
  end

  # Bootsnap requires files by their full paths.
  def test_a_library_that_is_required_by_its_path
    ["File.join(FOLDER, 'slow_library.rb')", "File.join(FOLDER, 'slow_library')",
     "Pathname(FOLDER) + 'slow_library.rb'", "'slow_library.rb'"].each do |path|
      assert_equal "[true]\n", ruby("require 'pathname'; FOLDER = $LOAD_PATH.grep(/nb/).first; " \
                                    "register; require(#{path}); p CURED"), path
    end
  end

  # As Bundler.require does.
  def test_a_library_that_the_module_kernel_requires
    assert_equal "[true]\n", ruby("register; Kernel.require('slow_library'); p CURED")
  end

  def test_a_library_is_not_cured_when_another_file_of_this_name_returns
    out = ruby(<<~RUBY)
      register
      folder = $LOAD_PATH.grep(/nb/).first
      Dir.mkdir(File.join(folder, "other"))
      File.write(File.join(folder, "other/slow_library.rb"), "p CURED")
      File.write(File.join(folder, "slow_library.rb"), <<~OTHER)
        module SlowLibrary
          VERSION = "1.2.3"
          class Client; end
          require File.join(__dir__, "other/slow_library.rb")
          p CURED
          COMPLETE = true
        end
      OTHER
      require "slow_library"
      p CURED
    RUBY

    assert_equal "[]\n[]\n[true]\n", out
  end

  def test_a_library_that_is_required_inside_the_loop
    assert_equal "[true]\n", ruby("register; NB.run { require 'slow_library'; p CURED }")
  end

  def test_a_library_that_came_by_another_way_is_cured_when_a_loop_starts
    script = "register; load 'slow_library.rb'; p CURED; NB::Scheduler.new; p CURED"

    assert_equal "[]\n[true]\n", ruby(script)
  end

  def test_it_is_cured_once
    script = "register; 2.times { require 'slow_library'; NB.run { } }; " \
             "8.times.map { Thread.new { NB::Drivers.install } }.each(&:join); p CURED"

    assert_equal "[true]\n", ruby(script)
  end

  def test_an_autoload_is_not_triggered
    script = "autoload :SlowLibrary, 'slow_library'; register; NB.run { }; " \
             "p CURED; SlowLibrary::Client; p CURED"

    assert_equal "[]\n[true]\n", ruby(script)
  end

  def test_switched_off_in_the_program
    assert_equal "[]\nslow 1.2.3 off (NB::Drivers.off)\n",
      ruby("register; NB::Drivers.off(:slow); require 'slow_library'; p CURED; puts state")
  end

  def test_switched_off_later_the_cure_can_see_it
    assert_equal "[true, false]\n", ruby(<<~RUBY)
      seen = []
      mine = nil
      register { |driver| (mine = driver).tap { seen << driver.on? } }
      require "slow_library"
      NB::Drivers.off("slow")
      p seen << mine.on?
    RUBY
  end

  def test_switched_off_by_the_environment
    script = "puts NB::Drivers.status.map(&:state).uniq.inspect, Kernel.instance_method(:require)" \
             ".source_location[0].end_with?('require_hook.rb').inspect"

    assert_equal "[:off]\nfalse\n", ruby("register; #{script}", { "NB_DRIVERS" => "0" })
  end

  def test_a_wrong_name_in_the_environment_is_told
    ["-no_such_library", "mysql2"].each do |value|
      result = Subprocess.ruby("p 1", env: { "NB_DRIVERS" => value })

      refute_predicate result.status, :success?
      assert_match(/NB_DRIVERS: .*#{value.delete("-")}/, result.err)
    end
    assert_match(/unknown driver x/,
      ruby("begin; NB::Drivers.off(:x); rescue ArgumentError; puts $!; end"))
  end

  def test_a_version_that_it_was_not_tested_with_is_left_as_it_is_and_told_once
    script = "register(versions: '~> 2.0'); require 'slow_library'; NB.run { }; p CURED; puts state"
    out = ruby(script) do |err|
      assert_equal 1, err.scan(/slow: left as it is.*version 1\.2\.3/).size, err
    end

    assert_match(/\A\[\]\nslow 1\.2\.3 unsupported \(version 1\.2\.3 is not one of ~> 2\.0/, out)
  end

  def test_a_cure_that_fails_leaves_the_library_usable
    script = "register { raise 'no such method' }; require 'slow_library'; " \
             "p SlowLibrary::Client.new.ask; puts state"
    out = ruby(script) { |err| assert_match(/slow: left as it is.*no such method/, err) }

    assert_match(/\A:blocking\nslow 1\.2\.3 unsupported \(the cure failed: no such method/, out)
  end

  def test_require_answers_and_fails_as_before
    script = "p require('slow_library'), require('slow_library'), " \
             "begin; require('no/such'); rescue LoadError => e; [e.path, e.message]; end, " \
             "Kernel.private_method_defined?(:require), Kernel.public_method_defined?(:require), " \
             "Kernel.respond_to?(:require), Kernel.require('tsort')"
    out = ruby("register; #{script}")

    assert_equal out, ruby(script, { "NB_DRIVERS" => "0" })
    assert_match(/\Atrue\nfalse\n/, out)
  end
end
