# frozen_string_literal: true

require_relative "../../fibers_setting"

module NB
  class Doctor
    # What Sidekiq's process will be set to, in the order in which Sidekiq itself looks: its
    # initializers, config/sidekiq.yml, RAILS_MAX_THREADS. Sidekiq reads the file only in its own
    # process. Blocks of `Sidekiq.configure_server` are for that process alone, too, and may do
    # anything, such as filling a schedule in Redis: so they are read, not run. A number or what
    # names a variable of the environment is understood, other expressions are not.
    class SidekiqFacts
      # Sidekiq's defaults.
      CONCURRENCY = 5
      # Seconds for which Sidekiq lets jobs end, unless told otherwise.
      TIMEOUT = 25

      variable = /ENV(?:\.fetch|\.key\?)?[\[(]\s*["'](?<name>\w+)["']/
      number = /["']?(?<NAME>\d[\d_]*)\b/
      numbers = %w[plain default block other].to_h do |name|
        [name, number.source.sub("NAME", name)]
      end
      # `5`, `ENV.fetch("X", 5)`, `Integer(ENV.fetch("X") { 5 })`, `(ENV["X"] || 5).to_i`
      NUMBER = /
        [\s(]*(?:Integer\(\s*)?[\s(]*
        (?:#{numbers["plain"]} |
           #{variable.source}\s*(?:,\s*#{numbers["default"]}["']?\s*)?[\])]
           (?:\s*(?:\{|do\b)\s*#{numbers["block"]})?
           (?:[^|\n;}]*\|\|\s*#{numbers["other"]})?)
      /x
      # `true`, `ENV["X"]`, `ENV.fetch("X", "1") == "1"`
      FLAG = /
        \s*(?:(?<plain>true|false)\b |
              #{variable.source}\s*(?:,\s*["'](?<default>\w*)["']\s*)?[\])]
              \s*(?:(?<operator>[=!]=)\s*["'](?<operand>\w*)["'])?(?![^\n;}]*\|\|))
      /x
      private_constant :NUMBER, :FLAG

      # @param root [Pathname] of the application
      # @param environment [String]
      # @scheduling never waits
      def initialize(root, environment)
        @root = root
        @environment = environment.to_sym
        @text = Dir[root.join("config/initializers/**/*.rb")].map { |file| code(file) }
                                                             .grep(/Sidekiq/).join
        @file = file
      end

      # @return [Boolean] whether jobs run in fibers
      # @scheduling never waits
      def fibers? = fibers ? true : false

      # @return [Integer] the most jobs at once, of all capsules together
      # @scheduling never waits
      def at_once
        capsules = @file.fetch(:capsules, {}).each_value.map do |one|
          plain(one)[:concurrency] || many
        end
        capsules += numbers(/\b(?!#{server}\b)\w+\.concurrency\s*=/)
        first + capsules.sum(&:to_i)
      end

      # @return [Integer] the seconds for which a stop waits for jobs
      # @scheduling never waits
      def stop
        (numbers(/\[:timeout\]\s*=/).last || @file[:timeout] || TIMEOUT).to_i
      end

      private

      # What the block of configure_server calls its argument.
      def server = @text[/configure_server\s*(?:do|\{)\s*\|\s*(\w+)/, 1] || "config"

      # @return [Integer, Boolean, nil] how many, or whether at all
      # @raise [ArgumentError]
      def fibers
        place = /\[:fibers\]\s*=/
        told = values(place, FLAG) { |match| flag(match) }.last
        told = numbers(place).last if told.nil?
        FibersSetting.read(told.nil? ? @file[:fibers] : told)
      end

      # @return [Integer, nil] how many, if they are a number
      def many = fibers.then { |said| said if said.is_a?(Integer) }

      # Of the first capsule. Sidekiq has made it before it runs the initializers, so there
      # `config[:concurrency] =` comes too late.
      def first
        return many if many

        told = numbers(/\b#{server}\.concurrency\s*=/).last
        (told || @file[:concurrency] || ENV["RAILS_MAX_THREADS"] || CONCURRENCY).to_i
      end

      def numbers(place) = values(place, NUMBER) { |match| number(match) }

      # What is assigned at each of the places, as far as it is understood.
      def values(place, pattern)
        @text.to_enum(:scan, place).filter_map do
          match = /\G#{pattern}/.match(@text, Regexp.last_match.end(0))
          value = yield(match) if match
          [value] unless value.nil?
        end.flatten
      end

      def number(match)
        (match[:plain] || told(match) || match[:block] || match[:other])&.delete("_")&.to_i
      end

      def flag(match)
        return match[:plain] == "true" if match[:plain]

        value = told(match)
        return (value == match[:operand]) == (match[:operator] == "==") if match[:operator]

        match[0].include?(".key?") ? !value.nil? : value || false
      end

      def told(match) = ENV.fetch(match[:name], match[:default])

      # Without the lines that are comments.
      def code(file) = File.readlines(file).grep_v(/\A\s*#/).join

      def file
        names = %w[config/sidekiq.yml config/sidekiq.yml.erb]
        file = names.map { |name| @root.join(name) }.find(&:file?)
        return {} unless file

        settings = plain(ActiveSupport::ConfigurationFile.parse(file).to_h)
        { **settings, **plain(settings.fetch(@environment, {})) }
      end

      # Sidekiq allows for `:concurrency: 5`, too, which is the String ":concurrency" here.
      def plain(settings) = settings.transform_keys { |name| name.to_s.delete_prefix(":").to_sym }
    end
  end
end
