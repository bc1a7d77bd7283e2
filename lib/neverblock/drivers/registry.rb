# frozen_string_literal: true

require_relative "../native"
require_relative "../loop/scheduler"
require_relative "driver"

module NB
  # Cures for libraries that would block the loop: one file of this folder per library, listed in
  # all.rb. A cure is applied automatically once NeverBlock and the library are both loaded, in
  # either order: at `require "neverblock"`, when the library's `require` returns (require_hook.rb),
  # or when a loop starts. Outside a loop, a cured library behaves as before.
  #
  # NB_DRIVERS=0 leaves all libraries (and `require`) unchanged; NB_DRIVERS=-mysql2,-sequel these
  # two. docs/TRANSPARENCY.md says what each library does with and without its cure.
  #
  # @example What is cured here
  #   puts NB::Drivers.status
  module Drivers
    @all = {}
    @features = {}
    @names = {} # of features, by the last part

    class << self
      # Declares a cure. It is applied at once if the library is already loaded.
      #
      # @example
      #   NB::Drivers.register("mysql2", constant: "Mysql2::Client", version: "Mysql2::VERSION",
      #                        versions: "~> 0.5.4") { |driver| Mysql2::Client.prepend(Waiting) }
      # @param name [String] the library
      # @param constant [String] is defined once the library is loaded; a part that programs load by
      #   itself, such as its version, doesn't define it
      # @param features [Array<String>] what programs `require` to load the library
      # @param version [String, nil] the constant with the version; nil: there is none
      # @param versions [String, Array<String>] requirement, as in a Gemfile
      # @yield [driver] applies the cure; called at most once
      # @yieldparam driver [Driver] for `on?` and `notice`
      # @return [void]
      # @scheduling never waits
      def register(name, constant:, features: [name], version: nil, versions: ">= 0", &cure)
        driver = Driver.new(name, constant: constant, features: features, version: version,
                                  versions: versions, &cure)
        @all[name] = driver
        features.each { |feature| note(feature, driver) }
        off?(name) ? driver.off("NB_DRIVERS") : driver.install
      end

      # Applies the cures of the libraries loaded so far. Called at the start of each loop.
      #
      # @return [void]
      # @thread any
      def install = @all.each_value(&:install)

      # Switches a cure off. If it was on, connections made so far may keep it.
      #
      # @param name [String, Symbol]
      # @return [void]
      # @raise [ArgumentError] for an unknown name
      # @scheduling never waits
      # @thread any
      def off(name)
        @all.fetch(name.to_s) { raise ArgumentError, unknown(name) }.off
      end

      # @return [Array<Driver::Status>] the state of each library; printable
      # @scheduling never waits
      # @thread any
      def status = @all.each_value.map(&:status)

      # @param gems [Hash{String => String, nil}] name => version; nil: it is not known
      # @return [Array<Driver::Status>] what to expect of the cures for these gems
      # @api private
      def status_with(gems)
        @all.slice(*gems.keys).map { |name, driver| driver.status_with(gems[name]) }
      end

      # Called after a successful `require`, which may have had the full path: Bootsnap's has.
      #
      # @param path [String, #to_path, #to_str]
      # @api private
      def required(path)
        return unless Repairs.main?

        path = path.respond_to?(:to_path) ? path.to_path : path.to_str
        (@features[path] || in_file(path)).each(&:install)
      end

      # Ends the list: reports unknown names in NB_DRIVERS, and watches for libraries still to come.
      #
      # @api private
      def complete
        wrong = switched_off - @all.keys
        raise ArgumentError, "NB_DRIVERS: #{unknown(wrong.join(", "))}" if wrong.any?
        return if none?

        Scheduler.before_open { install }
        require_relative "require_hook"
      end

      private

      def note(feature, driver)
        (@features[feature] ||= []) << driver
        @names[File.basename(feature)] = [*@names[File.basename(feature)], feature].uniq
      end

      # The drivers of libraries that `require` loads from this very file.
      def in_file(path)
        names = @names[File.basename(path, ".*")] or return []
        names.select { |name| path.start_with?("#{name}.") || loads?(name, path) }
             .flat_map { |name| @features[name] }
      end

      def loads?(name, path)
        return false unless path.match?(%r{/#{Regexp.escape(name)}(\.\w+)?\z})

        _, file = $LOAD_PATH.resolve_feature_path(name)
        file.nil? || File.identical?(file, path) || File.identical?(file, path + File.extname(file))
      end

      def off?(name) = none? || switched_off.include?(name)
      def none? = Native::DRIVERS == "0"

      def switched_off
        return [] if none?

        Native::DRIVERS.split(",").map do |word|
          word[/\A-(.+)\z/, 1] || raise(ArgumentError, "NB_DRIVERS: must be 0, or names with a " \
            "minus to switch off, such as -mysql2,-sequel; got: #{Native::DRIVERS.inspect}")
        end
      end

      def unknown(name) = "unknown driver #{name}; known are #{@all.keys.sort.join(", ")}"
    end
  end
end
