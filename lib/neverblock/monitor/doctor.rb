# frozen_string_literal: true

require_relative "doctor/project"

module NB
  # Looks at a project (a Rails application, or any folder with Ruby in it) and at the machine, and
  # says what keeps many fibers on one thread from working well there, each with its cure. `nb
  # doctor` prints it. Each check is a block in doctor/checks/: it sees the {Project} and tells.
  #
  # @example
  #   NB::Doctor.new(NB::Doctor::Project.new("shop")).examine
  #     .each { |finding| puts "#{finding.what}: #{finding.cure}" }
  class Doctor
    # What a check has to say.
    #
    # @!attribute check [String] its name
    # @!attribute level [Symbol] `:problem` (wrong results or a standstill), `:warning` (slower
    #   than it need be, or errors under load), `:note` (worth knowing)
    # @!attribute what [String] what is so, with the value
    # @!attribute cure [String] what to do
    Finding = Struct.new(:check, :level, :what, :cure, keyword_init: true)
    # What a finding can be, the worst first.
    LEVELS = %i[problem warning note].freeze

    # What is looked at, and in which projects.
    #
    # @!attribute rails [Boolean] only a Rails application that booted answers it fully
    # @!attribute applies [Proc, nil] of a {Project}: whether there is anything to look at
    # @!attribute block [Proc] what is done
    Check = Struct.new(:rails, :applies, :block, keyword_init: true) do
      # @api private
      def for?(project) = (!rails || project.rails?) && (!applies || applies.call(project))
    end

    @checks = {}

    class << self
      # @return [Hash{String => Check}] name => check, in the order in which they are made
      attr_reader :checks

      # Declares a check; called by the files in doctor/checks/.
      #
      # @param name [String] of one topic, as printed
      # @param rails [Boolean] whether it is for Rails applications only, and asks the booted one
      # @param applies [Proc, nil] takes the {Project}; false: this check is not for it
      # @yieldparam project [Project]
      # @return [void]
      def check(name, rails: false, applies: nil, &block)
        @checks[name] = Check.new(rails: rails, applies: applies, block: block)
      end
    end

    # @param project [Project]
    # @param except [Array<String>] names of checks to leave out
    # @raise [ArgumentError] for a name that there is not
    # @scheduling never waits
    def initialize(project, except: [])
      unknown = except - Doctor.checks.keys
      if unknown.any?
        raise ArgumentError, "unknown check #{unknown.join(", ")}; known are " \
                             "#{Doctor.checks.keys.join(", ")}"
      end
      @project = project
      @chosen = Doctor.checks.except(*except)
    end

    # @return [Array<Finding>] the worst first; empty when all is well
    # @scheduling may wait, for the application to boot in a process of its own
    def examine
      @findings = []
      checks.each do |name|
        @check = name
        instance_exec(@project, &@chosen.fetch(name).block)
      end
      @findings.sort_by.with_index { |finding, index| [LEVELS.index(finding.level), index] }
    end

    # @return [Array<String>] names of the checks that are made
    # @scheduling may wait, as {#examine}
    def checks = sorted.first

    # @return [Array<String>] names of those that have nothing to look at in this project
    # @scheduling may wait, as {#examine}
    def not_applicable = sorted.last

    # @return [Array<String>] names of those made by reading files only, because the application was
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
