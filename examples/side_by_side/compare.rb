# frozen_string_literal: true

# Runs the ten tasks in every language that is installed, checks what each printed and what the
# service has seen, and prints how many lines each took: without blank lines, comments, and lines
# that only close something.
#
# Run: ruby -Ilib examples/side_by_side/compare.rb [LANGUAGE ...]   such as: trio go
# Needs, for all: the gem async, python3-trio, nodejs, golang-go with x/sync and x/time (of Debian).

require "open3"
require "rbconfig"
require "tmpdir"
require_relative "service"

# The programs, what their tasks have to do, and their lengths.
class Compare
  HERE = __dir__
  RUBY = [RbConfig.ruby, "-I#{File.expand_path("../../lib", HERE)}"].freeze
  # `go run` would answer a signal itself.
  GO = %(to=#{Dir.tmpdir}/neverblock-side-by-side; go build -o $to "$0" && exec $to "$@").freeze
  LANGUAGES = {
    "NB" => ["neverblock.rb", *RUBY], "threads" => ["threads.rb", *RUBY],
    "async" => ["async.rb", *RUBY], "trio" => ["with_trio.py", "/usr/bin/python3"],
    "Node" => ["node.mjs", "node"], "Go" => ["main.go", "sh", "-c", GO]
  }.freeze
  # What each prints, and what must be true of the service then.
  TASKS = {
    "all" => [/\Aa b c\z/, ->(seen) { seen.peak.between?(2, 3) }],
    "limit" => [/\A20\z/, ->(seen) { seen.peak.between?(2, 5) && seen.answered == 20 }],
    "group" => [/\Ano\z/, ->(seen) { seen.abandoned == 1 }],
    "timeout" => [/\Alate\z/, ->(seen) { seen.abandoned == 2 }],
    "settle" => [/\Aa no c\z/, ->(seen) { seen.answered == 3 }],
    # 1.75 s, without what the first is late by: it loads what the others find. Seven take 1.5 s.
    "rate" => [/\A8\z/, ->(seen) { seen.peak > 1 && seen.span > 1.6 }],
    "retry" => [/\Aa\z/, ->(seen) { seen.begun == 3 && seen.span > 0.07 }],
    "shield" => [/\Atrue\z/, ->(seen) { seen.answered == 2 && seen.answers == %w[a b] }],
    "compute" => [/\A196418 121393 75025 46368\z/, ->(seen) { seen.begun.zero? }],
    "stop" => [/\A(a\n?)+\z/, ->(seen) { seen.abandoned.zero? && seen.begun == seen.answered }]
  }.freeze
  PART = %r{^(?:#|//) task: (\w+)\n(.*?)(?=^(?:#|//) (?:task:|the end))}m
  NOT_COUNTED = %r{\A\s*(?:#.*|//.*|end|[\[\](){};,\s]*)\s*\z}

  # @return [Hash{String => Integer}] task => lines
  def self.lengths(language)
    text = File.read(File.join(HERE, LANGUAGES.fetch(language).first), encoding: "UTF-8")
    text.scan(PART).to_h { |task, code| [task, code.lines.grep_v(NOT_COUNTED).size] }
  end

  # @return [String, nil] what went wrong
  def self.try(language, task)
    expected, check = TASKS.fetch(task)
    file, *command = LANGUAGES.fetch(language)
    Service.open do |service|
      out, status = run([*command, File.join(HERE, file), task], service)
      right = status.success? && out.chomp.match?(expected) &&
              service.wait_until { check.call(service) }
      right ? nil : "#{language} #{task}: #{out} #{status} #{service.inspect}"
    end
  end

  # The one that is to be stopped gets its signal while something is being asked.
  def self.run(command, service)
    environment = { "GO111MODULE" => "off", "GOPATH" => "/usr/share/gocode" }
    command.push(service.port.to_s)
    Open3.popen2e(environment, *command, pgroup: true) do |_, out, process|
      if command.include?("stop")
        service.wait_until { service.begun >= 3 }
        Process.kill(:INT, -process.pid)
      end
      [out.read, process.value]
    end
  end
end

if $PROGRAM_NAME == __FILE__
  languages = ARGV.empty? ? Compare::LANGUAGES.keys : ARGV
  Compare::TASKS.each_key do |task|
    wrong = languages.filter_map { |language| Compare.try(language, task) }
    lengths = languages.map { |language| "#{language} #{Compare.lengths(language).fetch(task)}" }
    puts "#{task}: #{lengths.join(", ")}"
    abort(wrong.join("\n")) unless wrong.empty?
  end
end
