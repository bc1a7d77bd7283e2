# frozen_string_literal: true

module Bench
  # What an application of Rails needs.
  RAILS_GEMS = { "activerecord" => "8.1.4", "railties" => "8.1.4" }.freeze

  # @param port [Integer]
  # @param params [Hash] of the cell
  # @param rackup [String]
  # @return [Array<String>] the command of our server
  def self.nb_serve(port, params, rackup)
    workers = params.fetch(:workers)
    [*Runtime.ruby, "-I#{ROOT}/lib", "#{ROOT}/exe/nb", "serve", "-q", "-C", "-",
     "-b", "tcp://127.0.0.1:#{port}", *(["-w", workers.to_s] if workers > 1), rackup]
  end

  # @param port [Integer]
  # @param params [Hash] of the cell
  # @param threads [Integer]
  # @return [Array<String>] the command of Puma, without the application
  def self.puma(port, params, threads)
    workers = params.fetch(:workers)
    ["puma", "-q", "-t", "#{threads}:#{threads}", *(["-w", workers.to_s] if workers > 1),
     "-b", "tcp://127.0.0.1:#{port}"]
  end

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
