# frozen_string_literal: true

require_relative "helper"
require "fileutils"

class BenchGemHomeTest < Minitest::Test
  Target = Struct.new(:version, :api)
  TARGET = Target.new(Gem::Version.new("3.4.5"), "3.4.0")

  def home(root, runtime = Bench.runtimes["async"], ruby = TARGET)
    Bench::GemHome.new(ruby, runtime, root: root)
  end

  def test_a_runtime_without_gems_needs_no_home
    threads = home("/nowhere", Bench.runtimes["threads"])

    assert_predicate threads, :ready?
    assert_empty threads.environment
    assert_nil threads.install { flunk }
  end

  def test_a_home_is_ready_when_every_pinned_version_is_there
    Dir.mktmpdir do |root|
      path = File.join(root, "3.4.0", "async")
      specifications = File.join(path, "specifications")
      FileUtils.mkdir_p(specifications)
      FileUtils.touch(File.join(specifications, "async-2.46.0.gemspec"))
      refute_predicate home(root), :ready?

      FileUtils.touch(File.join(specifications, "io-event-1.22.3-x86_64-linux.gemspec"))
      assert_predicate home(root), :ready?
      assert_equal({ "GEM_HOME" => path, "GEM_PATH" => path }, home(root).environment)
    end
  end

  def test_old_rubies_get_the_newest_that_runs_there
    old = Target.new(Gem::Version.new("3.1.2"), "3.1.0")

    assert_equal "2.23.1", home("/x", Bench.runtimes["async"], old).gems["async"]
    assert_equal "2.46.0", home("/x").gems["async"]
    assert_match(/needs Ruby 3.4/, Bench.runtimes["carbon"].refusal(old.version))
    assert_nil Bench.runtimes["carbon"].refusal(TARGET.version)
  end
end
