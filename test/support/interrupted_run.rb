# frozen_string_literal: true

require_relative "sync_scenarios"

# One run of one scenario. Of its three strands, the middle one is interrupted at chosen points: it
# may have to wait for the one before it, and the one behind it for it. The scenario says what must
# hold afterwards, and so does this file: the others have ended, and the victim raises each
# interrupt once.
#
# A subclass says where the points are: {InterruptedWaits} or {InterruptedLines}.
class InterruptedRun
  include SyncScenarios

  # Raised by a timeout with a class of its own.
  Late = Class.new(StandardError)
  # Raised by Thread#raise or a signal handler. No `retry` catches it.
  Strike = Class.new(NB::Cancelled)
  NAMES = %w[before victim behind].freeze
  # Scenarios that fork: they take so long that the victim runs alone.
  SLOW = %i[in_process process_pool].freeze
  OURS = %r{/lib/neverblock(?:/sync/\w+)?\.rb(?:\z|:)}.freeze

  attr_reader :wrong, :points, :struck, :where

  # @param kind [Symbol] the scenario
  # @param strikes [Array<Array(Integer, Symbol)>] at which points, and how
  # @param seed [Integer] of what the scenario chooses
  def initialize(kind, strikes, seed: 1)
    @kind = kind
    @random = Random.new(seed)
    @strikes = strikes.to_h
    @wrong = []
    @points = 0
    @struck = [] # how it was, so far
    @where = []
    @came = [] # out of the victim
    @others = {}
  end

  private

  def check(owner, expected, got)
    @wrong << "#{owner}: expected #{expected.inspect}, got #{got.inspect}" unless expected == got
  end

  def pause = sleep(@random.rand(1..3) * 0.0002)

  def names = SLOW.include?(@kind) ? %w[victim] : NAMES

  def owner(name) = "#{@kind} #{name}"

  def other(name)
    send(@kind, owner(name))
    @others[name] = :done
  rescue Exception => error # rubocop:disable Lint/RescueException -- written down
    @others[name] = error.full_message(highlight: false)
  end

  # What is not raised at once is raised at a later wait.
  def victim
    catch_one { yield }
    3.times { catch_one { sleep(0.0001) } }
  end

  def catch_one
    yield
  rescue *INTERRUPTS => error
    @came << error
  end
  INTERRUPTS = [NB::Cancelled, Late, Timeout::Error].freeze

  # A point that may be chosen.
  def pass
    how = @strikes[@points += 1] or return

    @struck << how
    @where << caller.grep(OURS).first(2).map { |line| line[%r{\w+\.rb:\d+}] }
    strike(how)
  end

  def judge
    check("the others", (names - %w[victim]).to_h { |name| [name, :done] }, @others)
    names.each do |name|
      wait_for(@left[owner(name)])
      check("#{owner(name)}: pieces", 0, @inside[owner(name)])
    end
    check_rest
    judge_what_came
  end

  # An exception that comes while another is on its way replaces it, and has it as its cause.
  def judge_what_came
    all = @came.flat_map { |error| with_causes(error) }
    check("what came twice", [], @came.tally.select { |_, count| count > 1 }.keys)
    came = @struck.uniq.map do |how|
      all.any? { |error| error.is_a?(self.class::RAISES.fetch(how)) }
    end
    # With the first, the victim may leave the block that the second is for.
    check("#{@struck} came", true, @strikes.size > 1 ? came.any? || came.empty? : came.all?)
    check("what came", true, @came.size <= @struck.size || @came.map(&:full_message))
  end

  def with_causes(error)
    found = []
    while error && !found.include?(error)
      found << error
      error = error.cause
    end
    found
  end
end
