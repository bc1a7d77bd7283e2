# frozen_string_literal: true

# What the old doors load: all names of 2008 as they were. Beyond `require "neverblock"` that means
# two things, for code that relies on them:
#
# - every fiber has locals, `fiber[:key]`: two methods more in Ruby's Fiber, which has none of them;
# - NB::FiberPool is NB::Pool::FiberPool, which can do all that the other can, works without a loop
#   too, and costs a second fiber per block.
require "neverblock"

Fiber.include(NB::Legacy::Locals)
NB::Pool::FiberPool # loads it before the name changes
NB.send(:remove_const, :FiberPool)
# The pool of 2008, which can do all that ours can.
NB::FiberPool = NB::Pool::FiberPool
