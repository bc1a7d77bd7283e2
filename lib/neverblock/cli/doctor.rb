# frozen_string_literal: true

require "json"
require_relative "../monitor/doctor"
require_relative "../server/config"
require_relative "../server/text"
require_relative "terminal"

module NB
  module CLI
    # `nb doctor`: finds what keeps a project from running well in fibers, and names the cure for
    # each finding.
    module Doctor
      # One line for the list of commands.
      SUMMARY = "check an application and the machine; each finding says what to change"
      # What `nb help doctor` prints.
      USAGE = <<~TEXT
        usage: nb doctor [options] [FOLDER]

        Checks whether the application in FOLDER (by default the current one) and this machine suit many
        fibers on one thread. Each finding says what to change. A Rails application is booted in a
        separate process. Of other applications, doctor reads the Gemfile, its lock file and the sources.
        In a bundle, run bundle exec nb doctor.

          -j, --json           findings as JSON
              --no-boot        read files only
          -s, --strict         exit with status 1 for warnings, too
          -x, --except CHECKS  skip these checks, comma-separated
          -w, --workers N      number of processes the application will run in

        For CI: the exit status is 1 if there are problems (✗: wrong results, or a standstill), with
        --strict also if there are warnings (!: slower than necessary, or errors under load), and 0
        otherwise. "Not applicable" marks checks for which the project has nothing to check.
      TEXT
      # The style of each level on a terminal.
      MARKS = { problem: ["✗", 31], warning: ["!", 33], note: ["·", 36] }.freeze
      private_constant :MARKS

      class << self
        # @param argv [Array<String>]
        # @return [Integer] exit status
        # @raise [UsageError]
        # @scheduling may wait, for the application to boot
        def run(argv)
          options = {}
          folder, *rest = parse(argv, options)
          raise UsageError, "takes one folder, got: #{[folder, *rest].join(" ")}" if rest.any?

          project = project(folder || ".", options)
          doctor = NB::Doctor.new(project, except: options.fetch(:except, []))
          findings = doctor.examine
          options[:json] ? print_json(project, doctor, findings) : print(project, doctor, findings)
          grave = options[:strict] ? %i[problem warning] : %i[problem]
          findings.any? { |finding| grave.include?(finding.level) } ? 1 : 0
        rescue ArgumentError => error
          raise UsageError, error.message.sub(/\Aexcept(?=:)/, "--except")
        end

        private

        def parse(argv, options)
          CLI.parse(argv) do |on|
            on.on("-j", "--json") { options[:json] = true }
            on.on("--[no-]boot") { |boot| options[:boot] = boot }
            on.on("-s", "--strict") { options[:strict] = true }
            on.on("-x", "--except CHECKS", Array) { |names| options[:except] = names }
            on.on("-w", "--workers N", Integer) { |count| options[:workers] = at_least_one(count) }
          end
        end

        def at_least_one(count)
          return count if count.positive?

          raise UsageError, "--workers: must be at least 1, got: #{count}"
        end

        # The project, with the settings of its config/neverblock.rb.
        def project(folder, options)
          config = Server::Config.new
          path = File.join(folder, "config/neverblock.rb")
          complaint = read(config, path) if File.exist?(path)
          NB::Doctor::Project.new(
            folder, boot: options.fetch(:boot, true), complaint: complaint,
                    fibers: config.server_options.fetch(:fibers, 1024),
                    workers: options[:workers] || [config.worker_count, 1].max
          )
        end

        # @return [String, nil] an error in that file
        def read(config, path)
          CLI.load_loop
          require_relative "../server/launcher" # some settings ask the page and others
          load(config, path)
        end

        def load(config, path)
          config.load(path)
          Server::Options.new(**config.server_options.slice(*Server::Options::TABLE.keys))
          nil
        rescue StandardError, ScriptError => error
          error.message.lines.first.strip
        end

        def print_json(project, doctor, findings)
          puts JSON.pretty_generate(project: Server::Text.utf8(project.folder),
                                    ruby: RUBY_DESCRIPTION, rails: project.facts["rails"],
                                    checks: doctor.checks,
                                    not_applicable: doctor.not_applicable,
                                    findings: findings.map(&:to_h))
        end

        def print(project, doctor, findings)
          rails = project.facts["rails"]
          puts "#{bold(File.basename(project.folder))}  #{"Rails #{rails}, " if rails}" \
               "Ruby #{RUBY_VERSION}, NeverBlock #{VERSION}", ""
          findings.each { |finding| print_finding(finding) }
          print_rest(doctor, doctor.checks - findings.map(&:check))
          puts "", summary(findings)
        end

        # Lists the checks that found nothing.
        def print_rest(doctor, silent)
          half = doctor.half_made
          well = silent - half
          puts "#{color("✓", 32)} #{well.join(", ")}" if well.any?
          half &= silent
          puts "- not checked without booting: #{half.join(", ")}" if half.any?
          none = doctor.not_applicable
          puts "- not applicable: #{none.join(", ")}" if none.any?
        end

        def print_finding(finding)
          mark, code = MARKS.fetch(finding.level)
          puts "#{color(mark, code)} #{bold(finding.check)}: #{finding.what}",
               "  #{color("→", 32)} #{finding.cure}", ""
        end

        def summary(findings)
          return "All is well." if findings.empty?

          counts = findings.map(&:level).tally
          MARKS.keys.filter_map do |level|
            count = counts[level]
            "#{count} #{level}#{"s" if count > 1}" if count
          end.join(", ")
        end

        def bold(text) = color(text, 1)
        def color(text, code) = Terminal.colors?($stdout) ? "\e[#{code}m#{text}\e[0m" : text
      end
    end
  end
end
