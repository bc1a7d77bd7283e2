# frozen_string_literal: true

module NB
  # The gem's version. It starts at 3 because the old releases 0.1.6.2 and 2.3.1 exist.
  VERSION = "3.0.0"
end
# The long name, as in 2008.
NeverBlock = NB unless defined?(NeverBlock)
