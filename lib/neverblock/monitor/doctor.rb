# frozen_string_literal: true

require_relative "doctor/project"

module NB
  # Examines a project (a Rails application, or any folder with Ruby code) and the machine. It
  # reports what keeps many fibers on one thread from working well there, each finding with its
  # cure. `nb doctor` prints the report. Each check is a block in doctor/checks/ that gets the
  # {Project}.
  #
  # @example
  #   NB::Doctor.new(NB::Doctor::Project.new("shop")).examine
  #     .each { |finding| puts "#{finding.what}: #{finding.cure}" }
  class Doctor
    # One result of a check.
    #
    # @!attribute check [String] its name
    # @!attribute level [Symbol] `:problem` (wrong results or a standstill), `:warning` (slower than
    #   necessary, or errors under load), `:note` (worth knowing)
    # @!attribute what [String] what was found, with the value
    # @!attribute cure [String] what to do
    Finding = Struct.new(:check, :level, :what, :cure, keyword_init: true)
    # The levels, the worst first.
    LEVELS = %i[problem warning note].freeze

    # What a check examines, and in which projects.
    #
    # @!attribute rails [Boolean] whether only a booted Rails application answers it fully
    # @!attribute applies [Proc, nil] gets a {Project}: whether there is anything to examine
    # @!attribute block [Proc] the check itself
    Check = Struct.new(:rails, :applies, :block, keyword_init: true) do
      # @api private
      def for?(project) = (!rails || project.rails?) && (!applies || applies.call(project))
    end

    @checks = {}

    class << self
      # @return [Hash{String => Check}] name => check, in the order of execution
      attr_reader :checks

      # Declares a check; called by the files in doctor/checks/.
      #
      # @param name [String] one topic, as printed
      # @param rails [Boolean] whether it is only for Rails applications, and asks the booted one
      # @param applies [Proc, nil] gets the {Project}; returns false if this check is not for it
      # @yieldparam project [Project]
      # @return [void]
      def check(name, rails: false, applies: nil, &block)
        @checks[name] = Check.new(rails: rails, applies: applies, block: block)
      end
    end

    # @param project [Project]
    # @param except [Array<String>] names of checks to leave out
    # @raise [ArgumentError] for an unknown name
    # @scheduling never waits
    def initialize(project, except: [])
      unknown = except - Doctor.checks.keys
      if unknown.any?
        raise ArgumentError, "except: unknown check #{unknown.join(", ")}; known are " \
                             "#{Doctor.checks.keys.join(", ")}"
      end
      @project = project
      @chosen = Doctor.checks.except(*except)
    end

    # @return [Array<Finding>] the worst first; empty if there is nothing to report
    # @scheduling may wait, for the application to boot in a process of its own
    def examine
      @findings = []
      checks.each do |name|
        @check = name
        instance_exec(@project, &@chosen.fetch(name).block)
      end
      @findings.sort_by.with_index { |finding, index| [LEVELS.index(finding.level), index] }
    end

    # @return [Array<String>] names of the checks that ran
    # @scheduling may wait, as {#examine}
    def checks = sorted.first

    # @return [Array<String>] names of the checks that do not apply to this project
    # @scheduling may wait, as {#examine}
    def not_applicable = sorted.last

    # @return [Array<String>] names of the checks that only read files because the application was
    #   not booted: they may miss something
    # @scheduling may wait, as {#examine}
    def half_made
      @project.booted? ? [] : checks.select { |name| @chosen.fetch(name).rails }
    end

    private

    def sorted
      @sorted ||= @chosen.partition { |_, check| check.for?(@project) }
        .map { |pairs| pairs.map(&:first) }
    end

    LEVELS.each do |level|
      define_method(level) do |what, cure:|
        @findings << Finding.new(check: @check, level: level, what: what, cure: cure)
      end
    end
  end
end

Dir[File.join(__dir__, "doctor/checks/*.rb")].sort.each { |path| require path }
