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

    # @param runtimes [Array<String>]
    # @param ruby [RubyTarget]
    # @param gems [Hash{String => String}] that the table needs
    # @return [Hash{String => String}] runtime => why this Ruby cannot run it
    def missing(runtimes, ruby, gems)
      runtimes.to_h { |id| [id, obstacle(Bench.runtimes.fetch(id), ruby, gems)] }.compact
    end

    # @param ruby [RubyTarget]
    # @param gems [Hash{String => String}]
    # @return [Hash{String => GemHome}] by runtime
    def homes(ruby, gems)
      wanted = [ruby.key, gems]
      @homes.filter_map { |(id, *key), home| [id, home] if key == wanted }.to_h
    end

    private

    def obstacle(runtime, ruby, gems)
      @obstacles.fetch([runtime.id, ruby.key, gems]) do |key|
        @obstacles[key] = runtime.refusal(ruby.version) || make_ready(runtime, ruby, gems)
      end
    end

    def make_ready(runtime, ruby, gems)
      runtime.compiled.each { |name| Compiled.program(name) }
      complaint = ruby.complaint('require "neverblock"') if runtime.ours?
      return complaint if complaint

      home = @homes[[runtime.id, ruby.key, gems]] = GemHome.new(ruby, runtime, also: gems)
      home.install(&@told)
    rescue Error => error
      error.message
    end
  end
end
