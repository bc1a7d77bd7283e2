# frozen_string_literal: true

require "minitest/autorun"
require "tmpdir"
require_relative "../rakelib/lock"
require_relative "../rakelib/rubies"

# bin/setup installs the versions that rakelib/locks/ names, on any machine.
class LocksTest < Minitest::Test
  ROOT = File.expand_path("..", __dir__)
  LOCK = <<~TEXT
    GEM
      specs:
        grpc (1.2.0-x86_64-linux)
        http-2 (1.3.0)
          rack (>= 2)
        rack (3.2.8)

    PLATFORMS
      ruby

    DEPENDENCIES
      http-2
  TEXT

  # The parts of Ruby and Bundler are played by the shell; Bundler notes the words that it gets.
  Ruby = Struct.new(:script) do
    def api = "9.9"
    def version = "9.9.0"
    def folder = "tmp"
    def gems = File.expand_path("gems")
    def gemfile = File.expand_path("tmp/Gemfile")
    def path = File.expand_path("ruby")
    def bundle = ["sh", "-c", "echo $* >>asked; #{script}", "sh"]
    def bundle_environment = Rubies.clean
  end

  def setup
    @home = Dir.pwd
    Dir.chdir(@folder = Dir.mktmpdir("nb"))
    FileUtils.mkdir_p(%w[rakelib/locks gems/specifications])
    File.write("ruby", "#!/bin/sh\nprintf https://gems.example/\n", perm: 0o755)
    File.write("Gemfile", "gem 'http-2'\n")
    File.write("rakelib/locks/racks.txt", "2.2.25\n")
    File.write("rakelib/locks/ruby-9.9.lock", LOCK)
  end

  def teardown
    Dir.chdir(@home)
    FileUtils.rm_rf(@folder)
  end

  # Those that the Gemfile names only for an old RubyGems do not count.
  def named_for(ruby)
    names = []
    gemfile = Module.new do
      const_set(:RUBY_VERSION, ruby)
      const_set(:Gem, Module.new.tap { |gem| gem.const_set(:Version, Gem::Version) })
      const_get(:Gem).const_set(:VERSION, "99")
      const_get(:Gem).define_singleton_method(:sources) { ::Gem.sources }
      define_singleton_method(:source) { |_| nil }
      define_singleton_method(:group) { |*, &gems| gems.call }
      define_singleton_method(:gem) { |name, *| names << name }
    end
    gemfile.module_eval(File.read("#{ROOT}/Gemfile"))
    names
  end

  # Without one of them, Bundler refuses the lock, and nobody can test on that Ruby.
  def test_each_lock_has_what_the_gemfile_names
    Dir["#{ROOT}/rakelib/locks/ruby-*.lock"].each do |file|
      locked = File.read(file)[/^DEPENDENCIES\n((?:  .*\n)+)/, 1].scan(/^  ([^ !\n]+)/).flatten
      assert_empty named_for("#{file[/\d+\.\d+/]}.0") - locked, file
    end
  end

  def test_bundler_gets_the_lock_with_this_machines_source_and_may_not_change_it
    install("[ $BUNDLE_FROZEN = true ]")

    assert_equal LOCK.sub("GEM\n", "GEM\n  remote: https://gems.example/\n"),
                 File.read("tmp/Gemfile.lock")
    assert_equal %w[install], asked
  end

  def test_what_is_installed_is_only_checked_until_the_lock_or_the_gemfile_changes
    3.times { install }
    assert_equal %w[install check check], asked

    File.write("rakelib/locks/ruby-9.9.lock", LOCK.sub("1.3.0", "1.4.0"))
    2.times { install }
    assert_equal %w[install check], asked.last(2)

    # Bundler 2.3's `check` does not compare a frozen lock with the Gemfile.
    File.write("Gemfile", "gem 'rack'\n")
    2.times { install }
    assert_equal %w[install check], asked.last(2)
  end

  def test_what_is_missing_is_installed_though_the_lock_is_the_same
    install
    install("[ $1 = install ]")
    assert_equal %w[install check install], asked
  end

  def test_other_versions_of_locked_gems_are_hidden
    keep = %w[http-2-1.3.0 grpc-1.2.0-x86_64-linux rack-3.2.8 rack-2.2.25 unlocked-1.0]
    others = %w[http-2-1.4.0 grpc-1.3.0-x86_64-linux grpc-1.2.0 rack-3.3.0]
    (keep + others).each { |name| File.write("gems/specifications/#{name}.gemspec", "") }
    install

    left = Dir.children("gems/specifications").map { |name| File.basename(name, ".gemspec") }
    assert_equal keep.sort, left.sort
  end

  def test_who_cannot_install_learns_what_to_do
    _, told = capture_io { assert_raises(SystemExit) { Lock.new(Ruby.new("exit 1")).install } }
    assert_match(%r{rakelib/locks/ruby-9\.9\.lock .*rake locks:renew.*rake locks:add}, told)
    install
    assert_equal %w[install install], asked, "it is tried again"
  end

  def test_a_ruby_without_a_lock_takes_the_newest
    File.delete("rakelib/locks/ruby-9.9.lock")
    said = install("[ $1 = install ] && [ $BUNDLE_FROZEN = false ]")
    assert_match(/ruby-9\.9\.lock does not exist: taking the newest/, said)
  end

  def test_a_renewed_lock_names_neither_a_host_nor_bundlers_version
    made = "GEM\n  remote: https://gems.example/\n  specs:\n    rake (13.4.2)\n\nCHECKSUMS\n  " \
           "bundler (4.0.24) sha256=1\n  rake (13.4.2) sha256=2\n\nBUNDLED WITH\n  4.0.24\n"
    File.write("made", made)
    Lock.new(Ruby.new("cp made tmp/Gemfile.lock")).renew(all: true)

    assert_equal "GEM\n  specs:\n    rake (13.4.2)\n\nCHECKSUMS\n  rake (13.4.2) sha256=2\n",
                 File.read("rakelib/locks/ruby-9.9.lock")
  end

  def test_adding_begins_with_what_is_locked_and_renewing_does_not
    File.write("made", LOCK)
    bundler = Ruby.new("[ -e tmp/Gemfile.lock ]; echo $? >>found; cp made tmp/Gemfile.lock")
    Lock.new(bundler).renew(all: false)
    assert_equal "0\n0\n", File.read("found"), "the gems, then the platforms"

    File.delete("found")
    Lock.new(bundler).renew(all: true)
    assert_equal "1\n0\n", File.read("found")
  end

  # Such as those who want no linters, in any project.
  def test_no_group_is_left_out_that_the_user_leaves_out
    FileUtils.mkdir_p("home/.bundle")
    File.write("home/.bundle/config", "---\nBUNDLE_WITHOUT: \"checks:default\"\n")
    ruby = Rubies::Found.new(RbConfig.ruby, RUBY_VERSION, true)
    env = ruby.bundle_environment.merge("HOME" => "#{@folder}/home")
    out, = Open3.capture2(env, ruby.path, "-rbundler", "-e", "p Bundler.settings[:without]")
    assert_equal "[]\n", out
  end

  def test_it_can_be_started_from_another_bundle
    File.write("Gemfile", "")
    env = Rubies.clean.merge("BUNDLE_GEMFILE" => "#{@folder}/Gemfile",
                             "RUBYOPT" => "-rbundler/setup")
    out, status = Open3.capture2e(env, "#{ROOT}/bin/setup", "--compile")
    assert_predicate status, :success?, out
  end

  HOSTS = /rubygems\.org|debian\.org|pypi\.|npmjs\.|crates\.io/

  def test_no_file_names_a_host_of_packages
    files = Dir["#{ROOT}/{*,.ci/*,{bin,rakelib,lib,exe,ext,test,bench,examples,docs}/**/*}"]
    texts = files.select { |file| File.file?(file) && File.size(file) < 1_000_000 }
    naming = texts.select { |file| File.binread(file).match?(HOSTS) }
    assert_empty naming - ["#{ROOT}/Gemfile.lock"]
  end

  private

  def install(script = "")
    said, = capture_io { Lock.new(Ruby.new(script)).install }
    said
  end

  # The first word of each command.
  def asked = File.readlines("asked").map { |line| line[/\w+/] }
end
