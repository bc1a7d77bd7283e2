# frozen_string_literal: true

require_relative "boot"

module NB
  class Doctor
    # A folder with an application, and what can be told about it: by reading its files, and, of a
    # Rails application, by booting it in a process of its own.
    class Project
      # Where an application's own Ruby is.
      SOURCES = %w[*.rb *.ru {app,lib,config}/**/*.rb].freeze
      private_constant :SOURCES

      # @return [String] absolute
      attr_reader :folder
      # @return [Integer] requests that run at a time in one process
      attr_reader :fibers
      # @return [Integer] processes
      attr_reader :workers
      # @return [String, nil] what is wrong in config/neverblock.rb
      attr_reader :complaint

      # @param folder [String]
      # @param fibers [Integer] see {#fibers}
      # @param workers [Integer] see {#workers}
      # @param complaint [String, nil] see {#complaint}
      # @param boot [Boolean] false: read files only
      # @raise [ArgumentError] when there is no such folder
      # @scheduling never waits
      def initialize(folder, fibers: 1024, workers: 1, complaint: nil, boot: true)
        raise ArgumentError, "no such folder: #{folder}" unless File.directory?(folder)

        @folder = File.expand_path(folder)
        @fibers = fibers
        @workers = workers
        @complaint = complaint
        @boot = boot
      end

      # @return [Boolean]
      # @scheduling never waits
      def rails? = File.exist?(path("config/environment.rb"))

      # @return [Hash{String => String}] gem => version: those of the booted application, else those
      #   of Gemfile.lock
      # @scheduling may wait
      def gems = @gems ||= facts.fetch("gems", locked)

      # What the booted application says of itself; empty where it is none, or does not boot.
      #
      # @return [Hash{String => Object}] see boot.rb
      # @scheduling may wait
      def facts = booted.is_a?(Hash) ? booted : {}

      # @return [String, nil] why it does not boot
      # @scheduling may wait
      def boot_error = booted.is_a?(String) ? booted : nil

      # The first lines of the application's own Ruby that match.
      #
      # @param pattern [Regexp]
      # @param globs [Array<String>] in the folder
      # @return [Array<String>] "config/puma.rb:3: threads 5, 5"
      # @scheduling may wait
      def lines(pattern, *globs)
        globs = SOURCES if globs.empty?
        globs.flat_map { |glob| Dir[path(glob)].sort }.select { |file| File.file?(file) }
          .flat_map { |file| Project.grep(file, pattern, file.delete_prefix("#{folder}/")) }
      end

      # @param file [String]
      # @param pattern [Regexp] of a line that is no comment
      # @param name [String] what to call the file
      # @return [Array<String>]
      # @api private
      def self.grep(file, pattern, name)
        File.foreach(file, encoding: "UTF-8").with_index(1).filter_map do |line, number|
          line = line.scrub.strip
          "#{name}:#{number}: #{line}" if !line.start_with?("#") && line.match?(pattern)
        end
      end

      private

      def path(name) = File.join(folder, name)

      def booted
        @booted ||= @boot && rails? ? Boot.new(folder).facts : {}
      end

      # Versions without the platform that may follow.
      def locked
        file = Dir[path("{Gemfile,gems}.{lock,locked}")].first or return {}
        File.read(file, encoding: "UTF-8").scan(/^    (\S+) \(([^\s)-]+).*\)$/).to_h
      end
    end
  end
end
