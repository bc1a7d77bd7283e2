# frozen_string_literal: true

require "fileutils"

module Bench
  # Rivals at pinned versions, each in a gem home of its own, so that nothing else on the machine
  # changes and no two of them meet.
  class GemHome
    # @param ruby [RubyTarget]
    # @param runtime [Runtime]
    # @param also [Hash{String => String}] gems that the table needs beside the runtime's
    # @param root [String] directory of all homes
    def initialize(ruby, runtime, also: {}, root: File.join(ROOT, "tmp", "rivals"))
      @ruby = ruby
      @runtime = runtime
      @gems = also.merge(runtime.gems_for(ruby.version))
      @path = File.join(root, ruby.api, runtime.home)
    end

    # @return [Hash{String => String}] gem => version
    attr_reader :gems

    # @return [Hash] variables under which a cell finds the gems and no others
    def environment
      gems.empty? ? {} : { "GEM_HOME" => @path, "GEM_PATH" => @path }
    end

    # @return [Boolean] whether everything is there
    def ready?
      gems.all? { |name, version| installed?(name, version) }
    end

    # Installs what is missing.
    #
    # @yieldparam text [String] what is going on, for a progress line
    # @return [String, nil] why it failed; nil when all is there
    def install
      gems.each do |name, version|
        next if installed?(name, version)

        yield "installing #{name} #{version} for Ruby #{@ruby.version}"
        failure = install_one(name, version)
        return failure if failure
      end
      nil
    end

    private

    def installed?(name, version)
      Dir[File.join(@path, "specifications", "#{name}-#{version}*.gemspec")].any?
    end

    def install_one(name, version)
      FileUtils.mkdir_p(@path)
      output, status = Command.capture(RubyTarget::CLEAN.merge(environment), *@ruby.gem_command,
                                       "install", name, "--version", version,
                                       "--install-dir", @path, "--no-document")
      return if status.success? && installed?(name, version)

      log = File.join(@path, "install-#{name}.log")
      File.write(log, output)
      "#{name} #{version} does not install (see #{log})"
    end
  end
end
