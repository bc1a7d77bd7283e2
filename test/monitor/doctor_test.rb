# frozen_string_literal: true

require "minitest/autorun"
require "json"
require_relative "../support/databases"
require_relative "../support/program"

# `nb doctor` on applications that are really wrong (test/monitor/apps), and on one that is not.
class DoctorTest < Minitest::Test
  APPS = File.join(__dir__, "apps")

  def test_a_wrong_rails_application
    examine("wrong_rails", "--workers", "100")

    assert_finding "isolation", :problem, "is :thread", "delete that line"
    assert_includes what("isolation"), "config/application.rb:15"
    assert_finding "concurrency", :problem, "Rack::Lock", "allow_concurrency"
    assert_finding "timeouts", :warning, "rack-timeout", "request_timeout"
    assert_finding "adapter", :problem, "config/database.yml:7", "neverblock_postgresql"
    assert_finding "pool", :warning, "primary: 5 connections for 1024 fibers", "connections:"
    assert_finding "max_connections", :problem, "500; the database allows 300", "pgbouncer"
    assert_finding "puma", :problem, "config/puma.rb:4", "delete the line"
    assert_finding "hiredis", :problem, "config/application.rb:18", "driver: :ruby"
    assert_equal 1, @status
  end

  def test_a_rails_application_as_it_should_be
    examine("good_rails")

    assert_empty(@findings.reject { |finding| finding["level"] == "note" })
    assert_includes @checks, "isolation"
    assert_equal 0, @status
  end

  def test_a_rails_application_that_does_not_boot
    examine("broken_rails")

    assert_finding "boot", :problem, "NoSuchMiddleware", "config/environment"
  end

  def test_a_wrong_project_without_rails
    examine("wrong_rack")

    assert_finding "gems", :warning, "hiredis-client 0.31.0", "remove it"
    assert_finding "gems", :note, "typhoeus 1.7.1", "Net::HTTP"
    assert_finding "rails", :problem, "Rails 6.1.7", "7.2"
    assert_finding "active record", :problem, "app/database.rb:3", "delete that line"
    assert_finding "thread variables", :problem, "app/current.rb:5", "Thread.current[:name]"
    assert_finding "stacks", :warning, "100000 fibers", "vm.max_map_count"
    assert_finding "config", :problem, "request_timeout", "docs/SERVER.md"
    assert_equal 1, findings("thread variables").size
    refute_includes @checks, "isolation"
  end

  def test_limits_of_this_process
    examine("good_rails", "--no-boot", "--workers", "900", prefix: %w[prlimit --nofile=64:256])

    assert_finding "files", :warning, "64 open files", "LimitNOFILE"
    assert_finding "processor", :warning, "900 processes", "one per core"
  end

  def test_checks_can_be_left_out
    examine("wrong_rack", "--except", "gems,rails,active record,thread variables,stacks,config," \
                                    "timeouts")

    assert_empty(@findings.reject { |finding| finding["level"] == "note" })
    assert_equal 0, @status
  end

  def test_in_words
    out, = Program.nb("doctor", File.join(APPS, "wrong_rack"))

    assert_match(/^! gems: hiredis-client 0\.31\.0: .+\n  → remove it/, out)
    assert_match(/^\d+ problems, \d+ warnings?/, out.lines.last)
  end

  def test_a_wrong_command_line
    { %w[nowhere] => "no such folder: nowhere", %w[--except hiss] => "unknown check hiss",
      %w[one two] => "takes one folder, got: one two" }.each do |arguments, message|
      _, errors, status = Program.nb("doctor", *arguments)

      assert_includes errors, message
      assert_equal 2, status.exitstatus
    end
  end

  private

  def examine(app, *options, prefix: [])
    environment = { "DOCTOR_DATABASE" => Databases.postgresql.url }
    out, errors, status = Open3.capture3(environment, *prefix, *Program::NB, "doctor", "--json",
                                         *options, File.join(APPS, app))
    assert_empty errors
    @status = status.exitstatus
    @findings, @checks = JSON.parse(out).values_at("findings", "checks")
  end

  def findings(check) = @findings.select { |finding| finding["check"] == check }

  def what(check) = findings(check).map { |finding| finding["what"] }.join("\n")

  def assert_finding(check, level, what, cure) # rubocop:disable Metrics/ParameterLists
    found = findings(check).find { |finding| finding["what"].include?(what) }
    assert found, "#{check}: no #{what.inspect} in #{@findings}"
    assert_equal level.to_s, found["level"]
    assert_includes found["cure"], cure
  end
end
