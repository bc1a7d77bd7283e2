# frozen_string_literal: true

require "never_block"
# As in the first article, where this file lay beside the program.
FiberedConnectionPool = NB::Pool::FiberedConnectionPool unless defined?(FiberedConnectionPool)
