# frozen_string_literal: true

module Bench
  # Makes ready what cells need before anything is measured: gems, C programs, our extension.
  class Prerequisites
    # @yieldparam text [String] what is going on, for a progress line
    def initialize(&told)
      @told = told
      @homes = {}
      @obstacles = {}
    end

    # @param table [Table]
    # @param runtimes [Array<String>]
    # @param ruby [RubyTarget]
    # @return [Hash{String => String}] runtime => why this Ruby cannot run it
    def missing(table, runtimes, ruby)
      runtimes.to_h { |id| [id, obstacle(Bench.runtimes.fetch(id), ruby, table)] }.compact
    end

    # @param ruby [RubyTarget]
    # @param gems [Hash{String => String}]
    # @return [Hash{String => GemHome}] by runtime
    def homes(ruby, gems)
      wanted = [ruby.key, gems]
      @homes.filter_map { |(id, *key), home| [id, home] if key == wanted }.to_h
    end

    private

    def obstacle(runtime, ruby, table)
      @obstacles.fetch([runtime.id, ruby.key, table.gems, table.ours?]) do |key|
        @obstacles[key] = runtime.refusal(ruby.version) || make_ready(runtime, ruby, table)
      end
    end

    def make_ready(runtime, ruby, table)
      runtime.compiled.each { |name| Compiled.program(name) }
      reason = extension_missing(ruby) if runtime.ours? || table.ours?
      return reason if reason

      gems = table.gems
      home = @homes[[runtime.id, ruby.key, gems]] = GemHome.new(ruby, runtime, also: gems)
      home.install(&@told)
    rescue Error => error
      error.message
    end

    def extension_missing(ruby)
      complaint = ruby.complaint('require "neverblock"') or return

      "the extension does not load (bin/setup compiles it): #{complaint}"
    end
  end
end
