# frozen_string_literal: true

require "rbconfig"
require "timeout"
require_relative "version"
require_relative "errors"

module NB
  # The only door to C, and the only place that reads the loop's environment variables.
  module Native
    # The kernel interface that loops use by default: NB_BACKEND, or nil for the best available.
    DEFAULT_BACKEND = ENV.fetch("NB_BACKEND", nil)
    # Whether repairs of Ruby's own defects may be installed: NB_REPAIRS=0 forbids them.
    REPAIRS = ENV.fetch("NB_REPAIRS", "1")
    # The seed of planted faults, in a build for tests (ext/neverblock/loop/chaos.h), or nil.
    CHAOS = ENV["NB_CHAOS"]&.then { |seed| Integer(seed) }
    # After how long a standing loop is reported on stderr (loop/watchdog.rb): NB_WATCHDOG.
    WATCHDOG = ENV.fetch("NB_WATCHDOG", "1")
    # Whether to load the build with ASan and UBSan (`rake asan`).
    SANITIZED = ENV.key?("NB_SANITIZE")
    # Whether to load the build that uses nothing specific to Linux (`rake portable`).
    PORTABLE = ENV.key?("NB_PORTABLE")
    # Which cures for foreign libraries are switched off: "0" for all, or "-mysql2,-sequel".
    DRIVERS = ENV.fetch("NB_DRIVERS", "")

    # Nobody has compiled the extension for this Ruby. The message says how.
    class MissingError < ::LoadError; end

    # @param backtrace [Array<String>, nil] of a fiber or an error; nil: there is none
    # @return [Array<String>] without the frames of this file, in which the server's fibers begin
    # @api private
    def self.user_frames(backtrace)
      frames = backtrace.to_a
      last = frames.rindex { |line| !line.start_with?(__FILE__) }
      last ? frames.first(last + 1) : []
    end
  end
end

# Each Ruby has its own build, so several Rubies can share one checkout. An installed gem has one.
api = RbConfig::CONFIG.values_at("MAJOR", "MINOR").join(".")
api += "-chaos" if NB::Native::CHAOS
api += "-asan" if NB::Native::SANITIZED
api += "-portable" if NB::Native::PORTABLE
begin
  require_relative "#{api}/neverblock"
rescue LoadError => error
  raise unless error.path.nil? || error.path.end_with?("#{api}/neverblock")

  begin
    require "neverblock/neverblock"
  rescue LoadError => error
    raise unless error.path == "neverblock/neverblock"

    raise NB::Native::MissingError,
          "NeverBlock's C extension is not compiled for Ruby #{RUBY_VERSION}: run " \
          "`bin/setup --compile` in a checkout, `gem pristine neverblock` for a gem"
  end
end

# Ruby 4.0 and 4.1 warn once about an experimental class when they make a buffer for a scheduler's
# hook. No program asked for that class, so the warning is used up here, silently.
if RUBY_VERSION >= "4"
  before = Warning[:experimental]
  begin
    Warning[:experimental] = false
    IO::Buffer.for("")
  ensure
    Warning[:experimental] = before
  end
end
NB::Native.chaos(NB::Native::CHAOS) if NB::Native::CHAOS
1.times do # a block within a block: see hooks/matches.c
  NB::Native.find_matches do |note|
    note.call
    1.times { "a match" =~ /match/ }
    Fiber.yield
  end
end
# Whether a fiber can block its thread for a while: Ruby 3.1 has no call for it, and see
# hooks/fiber_blocking.c.
NB::Native::BLOCKING = Fiber.respond_to?(:blocking) || NB::Native.find_blocking
NB::Native.on_spawn { NB::Native.spawned } # with a Ruby frame below: see hooks/fiber.c
