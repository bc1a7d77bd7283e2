# frozen_string_literal: true

require "fileutils"
require "open3"
require "rbconfig"
require "tmpdir"

# The exact version of every gem that the tests of one Ruby use: the lock file made by Bundler, kept
# in rakelib/locks/. The source of the gems is left out, because each machine has its own.
class Lock
  FOLDER = "rakelib/locks"
  # Platforms to lock in addition to Bundler's own; `ruby` serves every other machine.
  PLATFORMS = %w[ruby x86_64-linux aarch64-linux].freeze
  # Further versions of Rack to test: Bundler locks only one version of a gem.
  RACKS = "#{FOLDER}/racks.txt".freeze

  # @return [Array<String>] the older versions of Rack
  def self.racks = File.readlines(RACKS, chomp: true)

  # Writes the newest patch of each of these versions.
  def self.renew_racks
    newest = Dir.mktmpdir do |empty|
      racks.map { |version| newest_rack(version[/\A\d+\.\d+/], empty) }
    end
    File.write(RACKS, newest.map { |version| "#{version}\n" }.join)
  end

  def self.newest_rack(series, folder)
    found, = Open3.capture2(RbConfig.ruby, "-S", "gem", "install", "rack", "--explain",
                            "--version", "~> #{series}.0", "--install-dir", folder)
    found[/rack-(#{series}[\d.]+)$/, 1] || abort("#{RACKS}: no rack #{series} can be had")
  end
  private_class_method :newest_rack

  # @param ruby [Rubies::Found]
  def initialize(ruby)
    @ruby = ruby
  end

  def path = "#{FOLDER}/ruby-#{@ruby.api}.lock"
  def exist? = File.exist?(path)

  # Installs its gems, if any is missing.
  def install
    return if !place && bundle("check", out: File::NULL, err: File::NULL)

    puts "Ruby #{@ruby.version}: installing gems into #{@ruby.folder}"
    puts "#{path} does not exist: taking the newest versions" unless exist?
    return hide_others if bundle("install", "--quiet", "--jobs", "4", "--retry", "3")

    FileUtils.rm_f(copy) # so that the next set-up does not take it for installed
    abort complaint
  end

  # Gives Bundler a copy of the Gemfile and of the lock.
  #
  # @return [Boolean] whether one of them differs from the last
  def place
    FileUtils.mkdir_p(@ruby.folder)
    copies = { @ruby.gemfile => File.read("Gemfile") }
    copies[copy] = File.read(path).sub(/^GEM\n/, "GEM\n  remote: #{source}\n") if exist?
    changed = copies.reject { |file, text| File.exist?(file) && File.read(file) == text }
    changed.each { |file, text| File.write(file, text) }.any?
  end

  # Hides other versions of the locked gems that an older lock has left: programs that run without
  # Bundler load the newest version that has a specification.
  def hide_others
    return unless exist?

    locked = File.read(path).scan(/^    (\S+) \((.+)\)$/)
    wanted = [*locked, *Lock.racks.map { |version| ["rack", version] }].map { |gem| gem.join("-") }
    names = locked.map(&:first)
    Dir["#{@ruby.gems}/specifications/*.gemspec"].each do |file|
      gem = File.basename(file, ".gemspec")
      File.delete(file) if names.include?(gem[/\A(.+)-\d/, 1]) && !wanted.include?(gem)
    end
  end

  # Resolves again.
  #
  # @param all [Boolean] take the newest version of every gem; otherwise only of gems that are not
  #   locked yet
  def renew(all:)
    place
    FileUtils.rm_f(copy) if all
    # In two steps: Bundler 4 drops platforms when it adds gems.
    [[], ["--add-platform", *PLATFORMS]].each do |platforms|
      bundle("lock", *platforms, frozen: false) or abort "Bundler cannot resolve #{@ruby.gemfile}"
    end
    File.write(path, portable(File.read(copy)))
  end

  private

  def copy = "#{@ruby.gemfile}.lock"

  # A frozen Bundler obeys the lock or fails.
  def bundle(*words, frozen: exist?, **files)
    env = @ruby.bundle_environment.merge("BUNDLE_FROZEN" => frozen.to_s)
    system(env, *@ruby.bundle, *words, **files)
  end

  def complaint
    "bin/setup: Bundler could not install the gems of #{path} (see above). If a gem cannot be " \
      "had any more, or not for this machine: rake locks:renew. If the Gemfile names gems that " \
      "the lock does not: rake locks:add."
  end

  # Removes hosts, and Bundler's own version: each Ruby uses its own Bundler.
  def portable(text)
    text.gsub(/^  (remote: |bundler \().*\n/, "").sub(/\n+BUNDLED WITH\n.*\z/m, "\n")
  end

  # As the Gemfile asks.
  def source
    script = "print Gem.sources.first.uri"
    text, status = Open3.capture2(Rubies.clean, @ruby.path, "-e", script)
    status.success? ? text : abort("bin/setup: Ruby #{@ruby.version} knows no source of gems")
  end
end
