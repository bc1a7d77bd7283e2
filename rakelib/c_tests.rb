# frozen_string_literal: true

require "fileutils"

# Compiles and runs test/c/*_test.c, each with the files of ext/neverblock that it needs: those
# whose headers it includes, directly or through them, and those a line "Sources: room/a.c" names.
module CTests
  EXT = "ext/neverblock"
  OUT = "tmp/c"
  CC = ENV.fetch("CC", "cc")
  FLAGS = %W[-std=gnu11 -g -O1 -Wall -Wextra -Werror -Wno-unused-parameter
             -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
             -D_GNU_SOURCE -I#{EXT} -Itest/c].freeze
  # What extconf.rb finds out for the extension.
  FEATURES = RUBY_PLATFORM.include?("linux") ? %w[NB_EPOLL HAVE_EPOLL_PWAIT2] : []

  module_function

  # @return [Boolean] whether every test passed
  def run(name = "*")
    tests = Dir["test/c/#{name}_test.c"].sort
    abort "no test/c/#{name}_test.c" if tests.empty?
    FileUtils.mkdir_p(OUT)
    tests.map { |test| compile(test) && execute(test) }.all?
  end

  def compile(test)
    features = FEATURES.map { |feature| "-D#{feature}" }
    system(CC, *FLAGS, *features, "-o", program(test), test, *sources_of(test).sort, "-pthread")
  end

  def execute(test)
    print "#{File.basename(test, ".c")}: "
    $stdout.flush
    system(program(test))
  end

  def program(test) = File.join(OUT, File.basename(test, ".c"))

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
    (found | named.map { |path| "#{EXT}/#{path}" }).grep(/\.c\z/)
  end

  # Either from the root of the extension, or beside the file itself.
  def includes(file)
    File.read(file).scan(/^#include "(.+)"/).flatten.map do |name|
      beside = File.join(File.dirname(file), name)
      next "#{EXT}/#{name}" unless File.exist?(beside)

      File.expand_path(beside).delete_prefix("#{Dir.pwd}/")
    end
  end
end
