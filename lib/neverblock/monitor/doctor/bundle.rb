# frozen_string_literal: true

require_relative "child"

module NB
  class Doctor
    # The gems that a project's servers load, according to its Gemfile and lock file. Nothing need
    # be installed.
    class Bundle
      # Evaluates a Gemfile, as Bundler does; prints gem => groups.
      SCRIPT = <<~'RUBY'
        require "bundler"
        require "json"
        answer = $stdout.dup
        $stdout.reopen($stderr)
        bundle = Bundler::Dsl.new
        begin
          bundle.eval_gemfile(File.expand_path(%w[Gemfile gems.rb].find { |name| File.file?(name) }))
        rescue StandardError, ScriptError => error
          abort(error.message.strip.delete_prefix("[!] ").lines.first)
        end
        answer.puts JSON.generate(bundle.dependencies.to_h { |gem| [gem.name, gem.groups] })
      RUBY
      # Groups for one environment only: others do not load them.
      ENVIRONMENTS = %w[development test].freeze
      private_constant :SCRIPT, :ENVIRONMENTS

      # @param folder [String]
      # @param environment [String, nil] its group counts even though the name is in ENVIRONMENTS
      # @scheduling never waits
      def initialize(folder, environment)
        @folder = folder
        @strange = ENVIRONMENTS - [environment]
      end

      # @return [Boolean] whether there is a Gemfile or a lock file
      # @scheduling never waits
      def exist? = gemfile? || locked?

      # @return [Boolean] whether the versions and indirect dependencies are known
      # @scheduling never waits
      def locked? = !lock_file.nil?

      # @return [String, nil] why the Gemfile cannot be read
      # @scheduling may wait
      def complaint = (groups if groups.is_a?(String))

      # @return [Hash{String => String, nil}] gem => version (nil: there is no lock file), for the
      #   groups that a server loads; all locked gems, if the Gemfile does not tell
      # @scheduling may wait
      def gems
        return versions unless groups.is_a?(Hash)

        named = groups.select { |_, of| (of - @strange).any? }.keys
        locked? ? versions.slice(*with_needs(named)) : named.to_h { |name| [name, nil] }
      end

      private

      def gemfile? = find("{Gemfile,gems.rb}") ? true : false
      def lock_file = find("{Gemfile.lock,gems.locked}")
      def find(glob) = paths(glob).find { |path| File.file?(path) }
      def paths(glob) = Dir.glob(glob, base: @folder).map { |name| File.join(@folder, name) }

      def groups
        return unless gemfile?

        @groups ||= Child.new(@folder).ask(SCRIPT)
      end

      # Without the carriage returns of another system.
      def lock = @lock ||= locked? ? File.read(lock_file, encoding: "UTF-8").delete("\r") : ""

      # Without the platform that may follow.
      def versions = lock.scan(/^    (\S+) \(([^\s)-]+).*\)$/).to_h

      # Gem => its dependencies.
      def needs
        @needs ||= lock.scan(/^    (\S+) \(.+\)\n((?:      .+\n?)*)/)
          .each_with_object(Hash.new { |all, name| all[name] = [] }) do |(name, lines), all|
            all[name] |= lines.scan(/^      ([^\s!]+)/).flatten
          end
      end

      def with_needs(names)
        found = names
        found |= names = names.flat_map { |name| needs[name] } - found while names.any?
        found
      end
    end
  end
end
