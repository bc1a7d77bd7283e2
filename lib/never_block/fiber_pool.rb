# frozen_string_literal: true

require "never_block"
# As in the first article, where this file lay beside the program.
FiberPool = NB::Pool::FiberPool unless defined?(FiberPool)
