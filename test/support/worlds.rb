# frozen_string_literal: true

require "neverblock" unless ENV["NB_WORLDS"] == "threads"

# Where a contract runs: in plain threads, or under a scheduler with one backend. Each world knows
# how to start its own thread and how to start a strand (one line of execution) beside the others.
module Worlds
  # Plain blocking Ruby: the reference. Strands are threads.
  class PlainThreads
    def name = "threads"
    def fibers? = false
    def backend = nil
    def scheduler = nil
    def enter = yield
    def strand(&block) = ThreadStrand.new(&block)
  end

  # A scheduler on a thread of its own. Strands are fibers.
  class Looped
    attr_reader :name, :backend

    def initialize(name, &factory)
      @name = name
      @backend = name.to_sym
      @factory = factory
    end

    def fibers? = true
    def scheduler = @factory.call
    def strand(&block) = FiberStrand.new(&block)

    # Runs the block in the first fiber of a new loop; the loop runs on when the thread ends.
    def enter(&block)
      Fiber.set_scheduler(scheduler)
      Fiber.schedule(&block)
    end
  end

  BACKENDS = defined?(NB) ? NB::Native.backends : []
  KNOWN = {
    "threads" => PlainThreads.new,
    **BACKENDS.to_h { |name| [name, Looped.new(name) { NB::Scheduler.new(backend: name.to_sym) }] }
  }.freeze

  # NB_WORLDS=threads,poll chooses among them; all by default.
  def self.all
    @all ||= ENV.fetch("NB_WORLDS", KNOWN.keys.join(",")).split(",").map { |name|
 KNOWN.fetch(name) }
  end

  # For trying the contract on another scheduler than ours.
  def self.use(world) = @all = [KNOWN.fetch("threads"), world]
end
