# frozen_string_literal: true

require "fileutils"

# Compiles and runs test/c/*_test.c, each with the files of ext/neverblock that it needs: those
# whose headers it includes, directly or indirectly, and those named in a line
# "Sources: room/a.c", where a folder stands for all of its files.
module CTests
  EXT = "ext/neverblock"
  FLAGS = %W[-std=gnu11 -g -O1 -Wall -Wextra -Werror -Wno-unused-parameter
             -fno-omit-frame-pointer -D_GNU_SOURCE -I#{EXT} -Itest/c].freeze
  LINUX = %w[-DNB_EPOLL].freeze
  # Without the sanitizers' libraries, which other compilers lack: undefined behaviour stops the
  # program.
  TRAPS = %w[-fsanitize=undefined -fsanitize-undefined-trap-on-error].freeze

  # What the tests are compiled for. flags: the sanitizers, and what extconf.rb would find out;
  # runner: what a program is started by; packages: Debian's, of the others.
  Target = Struct.new(:name, :compiler, :flags, :runner, :packages, keyword_init: true) do
    def missing? = [compiler, *runner.first].any? { |name| !CTests.command?(name) }
    def folder = ["tmp/c", *name].join("-")
  end

  HERE = Target.new(
    compiler: ENV.fetch("CC", "cc"), runner: [],
    flags: %w[-fsanitize=address,undefined -fno-sanitize-recover=all] +
           (RUBY_PLATFORM.include?("linux") ? [*LINUX, "-DHAVE_EPOLL_PWAIT2"] : [])
  )
  OTHERS = [
    Target.new(name: "musl", compiler: "musl-gcc", flags: LINUX + TRAPS, runner: [],
               packages: "musl-tools"),
    Target.new(name: "aarch64", compiler: "aarch64-linux-gnu-gcc",
               flags: [*LINUX, *TRAPS, "-DNB_EMULATED"],
               runner: %w[qemu-aarch64 -L /usr/aarch64-linux-gnu],
               packages: "gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user (260 MB)")
  ].freeze

  module_function

  # @return [Boolean] whether every test passed
  def run(name = "*", target: HERE)
    tests = Dir["test/c/#{name}_test.c"].sort
    abort "no test/c/#{name}_test.c" if tests.empty?
    FileUtils.mkdir_p(target.folder)
    tests.map { |test| compile(test, target) && execute(test, target) }.all?
  end

  # The same as run, if the compiler is installed.
  def run_elsewhere
    there, missing = OTHERS.partition { |target| !target.missing? }
    missing.each { |target| puts "#{target.name}: not tested; install #{target.packages}" }
    there.map { |target| puts("#{target.name}:") || run(target: target) }.all?
  end

  def command?(name) = ENV["PATH"].split(":").any? { |path| File.executable?("#{path}/#{name}") }

  # Under another name first: another Ruby's tests may use the program at this moment.
  def compile(test, target)
    new = "#{program(test, target)}.#{Process.pid}"
    system(target.compiler, *FLAGS, *target.flags, "-o", new, test, *sources_of(test).sort,
           "-pthread") && File.rename(new, program(test, target))
  end

  def execute(test, target)
    print "#{File.basename(test, ".c")}: "
    $stdout.flush
    system(*target.runner, program(test, target))
  end

  def program(test, target) = File.join(target.folder, File.basename(test, ".c"))

  def sources_of(file, found = [])
    includes(file).each do |header|
      source = header.sub(/\.h\z/, ".c")
      [header, source].each do |path|
        next if found.include?(path) || !File.exist?(path)

        found << path
        sources_of(path, found)
      end
    end
    named = File.read(file).scan(/^\s*\*\s*Sources: (.+)$/).join(" ").split
    (found | named.flat_map { |path| Dir["#{EXT}/#{path}{,/*.c}"].sort }).grep(/\.c\z/)
  end

  # Relative to the root of the extension, or to the file itself.
  def includes(file)
    File.read(file).scan(/^#include "(.+)"/).flatten.map do |name|
      beside = File.join(File.dirname(file), name)
      next "#{EXT}/#{name}" unless File.exist?(beside)

      File.expand_path(beside).delete_prefix("#{Dir.pwd}/")
    end
  end
end
