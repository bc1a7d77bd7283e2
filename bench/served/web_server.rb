# frozen_string_literal: true

module Bench
  # Defines a runtime that serves the applications of bench/served/, with what all of them need.
  #
  # @param id [String]
  # @param gems [Hash{String => String}] gem => version, beside rack and pg
  # @param options [Hash] see {Bench.runtime}
  # @yield in the runtime, with its size: label, serve
  # @return [void]
  def self.web_server(id, gems: {}, **options, &block)
    runtime(id, **options) do |*size|
      needs_ruby "3.4", "the server tables are measured on Ruby 3.4"
      needs "wrk", "taskset"
      gems { { "rack" => "3.2.8", "pg" => "1.7.0", **gems } }
      instance_exec(*size, &block)
    end
  end
end
