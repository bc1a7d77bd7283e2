# frozen_string_literal: true

require "json"
require "rbconfig"
require "shellwords"

module Bench
  # A Ruby that cells run on.
  class RubyTarget
    # Asked of the Ruby itself.
    PROBE = <<~RUBY
      require "json"
      require "rbconfig"
      yjit = defined?(RubyVM::YJIT) ? RubyVM::YJIT.respond_to?(:enabled?) : false
      puts JSON.generate(version: RUBY_VERSION, description: RUBY_DESCRIPTION, yjit: yjit,
                         api: RbConfig::CONFIG["ruby_version"], bin: RbConfig::CONFIG["bindir"])
    RUBY
    # Variables that would make a cell load what it should not.
    CLEAN = %w[RUBYOPT RUBYLIB GEM_HOME GEM_PATH BUNDLE_GEMFILE BUNDLE_BIN_PATH].to_h do |name|
      [name, nil]
    end.freeze

    # @return [Gem::Version]
    attr_reader :version
    # @return [String] "3.4.0"
    attr_reader :api
    # @return [String] what `ruby -v` prints
    attr_reader :description
    # @return [Boolean] whether cells run with YJIT
    attr_reader :yjit

    # @param command [String, Array<String>] path of the Ruby, with options if any
    # @param yjit [Boolean] switch YJIT on where the Ruby has it
    # @raise [Bench::Error] when it does not run
    def initialize(command = RbConfig.ruby, yjit: true)
      @command = Array(command).flat_map { |part| Shellwords.split(part) }
      facts = probe
      @version = Gem::Version.new(facts["version"])
      @api = facts["api"]
      @bin = facts["bin"]
      @description = facts["description"].strip
      @yjit = @command.include?("--yjit") || (yjit && facts["yjit"])
      @command += ["--yjit"] if @yjit && !@command.include?("--yjit")
    end

    # @return [Array<String>] the program and its options
    def command = @command

    # @return [String] "3.4.5+yjit", the key in JSONL
    def key = yjit ? "#{version}+yjit" : version.to_s

    # @return [String] what a reader sees
    def label = yjit ? "Ruby #{version} with YJIT" : "Ruby #{version}"

    # @return [Array<String>] command line of its gem program
    def gem_command
      [@command.first, File.join(@bin, "gem")]
    end

    # @param script [String] Ruby code
    # @return [String, nil] nil when it ran well, else its last line of output
    def complaint(script)
      output, status = Command.capture(CLEAN, *command, "-I#{File.join(ROOT, "lib")}", "-e", script)
      return if status.success?

      output.lines.grep(/\S/).first.to_s.strip
    end

    private

    def probe
      output, status = Command.capture(CLEAN, *@command, "-e", PROBE)
      raise Error, "#{named} does not run: #{output.lines.first.to_s.strip}" unless status.success?

      JSON.parse(output.lines.last.to_s) # after its warnings
    rescue JSON::ParserError
      raise Error, "#{named} is no Ruby: it does not run Ruby code"
    rescue SystemCallError => error
      raise Error, "#{named} does not run: #{error.message}"
    end

    def named = @command.empty? ? '""' : @command.join(" ")
  end
end
