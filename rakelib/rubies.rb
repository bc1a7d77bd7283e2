# frozen_string_literal: true

require "open3"
require "rbconfig"

# The Rubies that tests run on: this one, and the newest of 3.4 or later, if there is one.
module Rubies
  # A Ruby, and the folder of what belongs to it alone.
  Found = Struct.new(:path, :version, :first) do
    def api = version[/\A\d+\.\d+/]
    def folder = "tmp/ruby-#{api}"

    # The Bundler that came with this Ruby, or else the first one in the PATH.
    def bundle
      own = File.join(File.dirname(path), "bundle")
      File.exist?(own) ? [path, own] : [path, "-S", "bundle"]
    end

    # For Bundler, which installs the gems. Where this sets nothing, the user's own settings apply.
    def bundle_environment
      Rubies.clean.merge("BUNDLE_GEMFILE" => gemfile, "BUNDLE_WITHOUT" => first ? "" : "checks",
                         "BUNDLE_SILENCE_ROOT_WARNING" => "1",
                         "BUNDLE_PATH" => File.expand_path("#{folder}/gems"))
    end

    # For programs that use the gems: without Bundler, which would get into every Ruby that they
    # start; in UTF-8, whatever the machine's setting.
    def environment
      Rubies.clean.merge("GEM_HOME" => gems, "GEM_PATH" => gems, "LC_ALL" => "C.UTF-8",
                         "PATH" => "#{gems}/bin:#{ENV.fetch("PATH")}")
    end

    def gems = File.expand_path("#{folder}/gems/ruby/#{api}.0")

    # A copy of the shared Gemfile, so each Ruby has its own lock beside it.
    def gemfile = File.expand_path("#{folder}/Gemfile")

    def rake = [path, "#{gems}/bin/rake"]
  end

  USUAL = %w[/opt/ruby* /opt/rubies/* /usr/local ~/.rbenv/versions/* ~/.rubies/* ~/.rvm/rubies/*
             ~/.asdf/installs/ruby/* ~/.local/share/mise/installs/ruby/*].freeze

  module_function

  # Removes what another Ruby or Bundler has set for its children.
  def clean
    ENV.keys.grep(/\A(BUNDLE|RUBYOPT|RUBYLIB|GEM_)/).to_h { |name| [name, nil] }
  end

  # @return [Array<Found>] the Rubies that NB_RUBIES names (path:path), or else this one and the
  #   newest of 3.4 or later in the usual places
  def all
    named = ENV.fetch("NB_RUBIES", "").split(":").reject(&:empty?)
    found = named.map { |path| look_at(path) || abort("NB_RUBIES: #{path} is no Ruby that runs") }
    found = [look_at(RbConfig.ruby), newest].compact.uniq(&:api) if found.empty?
    found.first.first = true # style and documentation are checked once, on this one
    found
  end

  # @return [Found, nil]
  def newest
    USUAL.flat_map { |place| Dir[File.expand_path("#{place}/bin/ruby")] }
      .filter_map { |path| look_at(path) }
      .select { |ruby| Gem::Version.new(ruby.version) >= Gem::Version.new("3.4") }
      .max_by { |ruby| Gem::Version.new(ruby.version) }
  end

  def look_at(path)
    version, status = Open3.capture2e(clean, path, "-e", "print RUBY_VERSION")
    Found.new(path, version) if status.success? && version.match?(/\A\d+\.\d+\.\d+\z/)
  rescue SystemCallError
    nil
  end
end
