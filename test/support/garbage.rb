# frozen_string_literal: true

require_relative "compaction"

# Sets how the collector behaves in a process that loads this file first (`rake gc` loads it into
# every test and the programs it starts). NB_GC=compact: objects move at each major collection.
# NB_GC=move: at every 300th call of a C method of NeverBlock. NB_GC=stress: in one of 20 such
# calls, every allocation collects, until the next call or return.
module Garbage
  OURS = /\A#?<?(?:Class:)?NB\b/
  MOVE_EVERY = 300
  STRESS_EVERY = 20

  module_function

  def begin(mode)
    @calls = 0
    case mode
    when "compact" then GC.auto_compact = true
    when "move" then trace(:c_call) { Compaction.run if turn?(MOVE_EVERY) }
    when "stress"
      trace(:c_call) { GC.stress = turn?(STRESS_EVERY) }
      trace(:c_return) { GC.stress = false }
    end
  end

  def turn?(every) = ((@calls += 1) % every).zero?

  def trace(event)
    TracePoint.new(event) { |point| yield if ours?(point.defined_class) }.enable
  end

  def ours?(owner)
    (@ours ||= {}.compare_by_identity).fetch(owner) { @ours[owner] = OURS.match?(owner.inspect) }
  end
end

Garbage.begin(ENV.fetch("NB_GC", nil))
