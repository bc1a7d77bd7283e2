# frozen_string_literal: true

require "rbconfig"
require "timeout"
require_relative "version"
require_relative "errors"

module NB
  # The one door to C, and the one place where the loop's environment variables are read.
  module Native
    # Which kernel interface a loop uses unless told: NB_BACKEND, or nil for the best there is.
    DEFAULT_BACKEND = ENV.fetch("NB_BACKEND", nil)
    # Whether repairs of Ruby's own holes may be installed: NB_REPAIRS=0 forbids it.
    REPAIRS_ALLOWED = ENV["NB_REPAIRS"] != "0"
    # Which cures for foreign libraries are switched off: "0" for all, or "-mysql2,-sequel".
    DRIVERS = ENV.fetch("NB_DRIVERS", "")
  end
end

# Each Ruby has its own build, so that several can share one checkout; an installed gem has one.
api = RbConfig::CONFIG.values_at("MAJOR", "MINOR").join(".")
begin
  require_relative "#{api}/neverblock"
rescue LoadError => error
  raise unless error.path.nil? || error.path.end_with?("#{api}/neverblock")

  require "neverblock/neverblock"
end
