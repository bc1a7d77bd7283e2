# frozen_string_literal: true

require_relative "boot"
require_relative "bundle"

module NB
  class Doctor
    # A folder with an application, and what is known about it: from its files and, for a Rails
    # application, from booting it in a process of its own.
    class Project
      # Where Ruby code is looked for.
      FOLDERS = %w[app config lib].freeze
      # If there is one of these files, in the other folders, too.
      ROOT = "{Gemfile,gems.rb,*.ru,config/environment.rb}"
      # The folders of code that no server runs, or that other people wrote.
      APART = %w[bench benchmarks bin coverage db doc docs examples features log node_modules public
                 script scripts spec test tests tmp vendor].freeze
      private_constant :FOLDERS, :ROOT, :APART

      # @return [String] absolute
      attr_reader :folder
      # @return [Integer] concurrent requests in one process
      attr_reader :fibers
      # @return [Integer] processes
      attr_reader :workers
      # @return [String, nil] an error in config/neverblock.rb
      attr_reader :complaint

      # @param folder [String]
      # @param fibers [Integer] see {#fibers}
      # @param workers [Integer] see {#workers}
      # @param complaint [String, nil] see {#complaint}
      # @param boot [Boolean] false: only read files
      # @raise [ArgumentError] if there is no such folder
      # @scheduling never waits
      def initialize(folder, fibers: 1024, workers: 1, complaint: nil, boot: true)
        raise ArgumentError, "no such folder: #{folder.empty? ? '""' : folder}" unless
          File.directory?(folder)
        raise ArgumentError, "this user may not read the folder #{folder}" unless
          File.readable?(folder) && File.executable?(folder)

        @folder = File.expand_path(folder)
        @fibers = fibers
        @workers = workers
        @complaint = complaint
        @boot = boot
      end

      # @return [Boolean]
      # @scheduling never waits
      def rails? = File.exist?(path("config/environment.rb"))

      # @return [Boolean] whether a Rails application has booted and answered
      # @scheduling may wait
      def booted? = facts.any?

      # @param name [String] a path inside the folder
      # @return [Boolean]
      # @scheduling never waits
      def file?(name) = File.file?(path(name))

      # @return [Boolean] whether the folder has Ruby code of its own
      # @scheduling never waits
      def sources? = source_files.any?

      # @return [Bundle] the content of Gemfile and Gemfile.lock
      # @scheduling never waits
      def bundle
        @bundle ||= Bundle.new(folder, ENV["RAILS_ENV"] || ENV["RACK_ENV"] ||
                                       (rails? ? "development" : nil))
      end

      # @return [Hash{String => String, nil}] gem => version (nil: there is no lock file): the gems
      #   that the booted application loads, or else those of the Gemfile's groups
      # @scheduling may wait
      def gems = @gems ||= facts.fetch("gems") { bundle.gems }

      # The booted application's answers; empty if it is not an application, or does not boot.
      #
      # @return [Hash{String => Object}] see boot.rb
      # @scheduling may wait
      def facts = booted.is_a?(Hash) ? booted : {}

      # @return [String, nil] why it does not boot
      # @scheduling may wait
      def boot_error = booted.is_a?(String) ? booted : nil

      # The first matching lines of the application's own Ruby code.
      #
      # @param pattern [Regexp]
      # @param globs [Array<String>] inside the folder
      # @return [Array<String>] "config/puma.rb:3: threads 5, 5"
      # @scheduling may wait
      def lines(pattern, *globs)
        source_files(*globs).flat_map { |file, name| Project.grep(file, pattern, name) }
      end

      # @param globs [Array<String>] inside the folder; none: the application's own Ruby code
      # @return [Array<Array(String, String)>] for each file its path, and its name in reports
      # @scheduling never waits
      def source_files(*globs)
        names = globs.empty? ? own_files : Dir.glob(globs, base: folder).sort.uniq
        names.map { |name| [path(name), name] }.select { |file, _| File.file?(file) }
      end

      # @param file [String]
      # @param pattern [Regexp] for lines that are not comments
      # @param name [String] the file's name in reports
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

      # Without a sign of an application it may be any folder, such as a home with thousands.
      def own_files
        all = Dir.glob(ROOT, base: folder).any? ? Dir.children(folder).grep_v(/\A\./) : FOLDERS
        inner = (all - APART).sort.flat_map do |name|
          Dir.glob("**/*.rb", base: path(name)).sort.map { |file| File.join(name, file) }
        end
        Dir.glob("*.{rb,ru}", base: folder).sort + inner.reject { |name| apart?(name) }
      end

      # Below app, config and lib, the names of folders are the application's own.
      def apart?(name)
        (name.split("/")[0..-2].take_while { |part| !FOLDERS.include?(part) } & APART).any?
      end

      def booted
        @booted ||= @boot && rails? ? Boot.new(folder).facts : {}
      end
    end
  end
end
