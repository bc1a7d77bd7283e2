# frozen_string_literal: true

# Loaded by the old doors: all names of 2008 as they were. Beyond `require "neverblock"` that means
# two things, for code that relies on them:
#
# - Every fiber has locals, `fiber[:key]`: two more methods on Ruby's Fiber, which has neither.
# - NB::FiberPool is NB::Pool::FiberPool. It can do everything that the new class can, also works
#   without a loop, and costs a second fiber per block.
require "neverblock"

Fiber.include(NB::Legacy::Locals)
pool = NB::Pool::FiberPool # loads it before the name changes
NB.send(:remove_const, :FiberPool)
# The pool of 2008, which can do everything that ours can.
NB::FiberPool = pool
