# frozen_string_literal: true

# rubocop:disable Layout/LineLength -- a script or an expectation each, better on one line

require_relative "program"

# Where a server runs: in a folder that is a link, or that the application leaves; without /proc.
class ServerPlacesTest < Minitest::Test
  include ServerProgram

  # Bundler names it by the release's own folder.
  def test_usr2_takes_the_gemfile_of_the_release_that_a_link_names
    releases = %w[1 2].map { |name| File.join(File.realpath(@dir), name) }
    releases.each do |folder|
      Dir.mkdir(folder)
      File.write("#{folder}/Gemfile", "gem 'rack'\n")
      File.write("#{folder}/config.ru", "seen = File.realpath(ENV['BUNDLE_GEMFILE'])\nrun ->(_env) { [200, {}, [seen]] }")
    end
    link = "#{@dir}/current"
    File.symlink(releases.first, link)
    launch(RbConfig.ruby, Gem.bin_path("bundler", "bundle"), "exec", *nb("serve", "-b", "unix://#{@socket}", "-w", "1"), env: {"PWD" => link, "BUNDLE_GEMFILE" => nil}, chdir: link)
    assert_equal "#{releases.first}/Gemfile", body
    File.unlink(link)
    File.symlink(releases.last, link)
    2.times do
      old = pids
      Process.kill("USR2", @pid)
      eventually { (now = pids).any? && (now & old).empty? && old.none? { |pid| alive?(pid) } }
      assert_equal "#{releases.last}/Gemfile", body
    end
    assert_predicate finish, :success?
  end

  # A development server starts often.
  def test_without_workers_and_control_address_their_files_are_not_loaded
    File.write("#{@dir}/config.ru", "run ->(_env) { [200, {}, [$LOADED_FEATURES.map { |path| File.basename(path, '.rb') }.join(' ')]] }")
    @pid = spawn(*(nb("serve", "-b", "unix://#{@socket}") - ["--control", @control]), chdir: @dir, out: @log, err: @log, pgroup: true)
    loaded = eventually do
      body.split
    rescue SystemCallError
      nil # it does not listen yet
    end
    assert_includes loaded, "launcher"
    assert_empty loaded & %w[cluster worker_process worker_channel overview control exposition host_field inherited_listeners json tempfile ipaddr]
    assert_predicate finish, :success?
  end

  # Once it is loaded, the application may be anywhere.
  def test_files_are_found_again_in_another_folder
    File.write("#{@dir}/config.ru", "Dir.chdir('/')\n#{RACKUP}")
    files = %w[pid access.log other.sock other.control]
    [[], %w[-w 1]].each do |flags|
      start("--pidfile", "pid", "--access-log", "access.log", "-b", "unix://other.sock", "--control", "unix://other.control", *flags)
      assert_equal files.sort, files.select { |name| File.exist?("#{@dir}/#{name}") }.sort
      get
      File.rename("#{@dir}/access.log", "#{@dir}/old.log")
      Process.kill("HUP", @pid)
      eventually { get && File.size?("#{@dir}/access.log") }
      assert_predicate finish, :success?
      assert_equal %w[access.log], files.select { |name| File.exist?("#{@dir}/#{name}") }
      File.delete("#{@dir}/access.log")
    end
  end

  # A jail without /proc, or a /proc that hides other users' processes.
  HIDDEN = <<~RUBY
    class << File
      prepend(Module.new { def read(path, ...) = path == "/proc/\#{Process.ppid}/status" ? raise(Errno::ENOENT) : super })
    end
  RUBY

  def test_a_worker_drains_where_proc_does_not_show_its_master
    start("-w", "1", config: "#{HIDDEN}drain_timeout 10")
    assert_term_waits
    refute_match(/killing it/, log)
  end
end
# rubocop:enable Layout/LineLength
