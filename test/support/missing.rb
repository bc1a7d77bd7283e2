# frozen_string_literal: true

require "minitest"

# What a test needs and does not find: it skips. Where bin/setup has installed all that
# rakelib/packages.txt names, as for CI (NB_COMPLETE), it fails.
module Missing
  # @param what [String] such as "PostgreSQL"
  def missing(what)
    ENV["NB_COMPLETE"] ? flunk("#{what} is missing") : skip("#{what} is missing: bin/setup")
  end

  Minitest::Test.include(self)
end
