# frozen_string_literal: true

require "minitest/autorun"
require "neverblock"
require_relative "../support/subprocess"

# Versions of Mongoid and Chewy that keep their state in locals of the fiber need no cure: these
# stand-ins say and do what such versions do.
class FiberLocalsTest < Minitest::Test
  def outcome(program)
    result = Subprocess.ruby(program)
    assert_empty result.err
    result.out
  end

  def test_mongoid_before_9_0_3
    assert_equal "[nil, 1, nil]", outcome(<<~PROGRAM)
      module Mongoid
        VERSION = "8.1.13"
        module Config; end
        module Threaded
          extend self
          def database_override = Thread.current["[mongoid]:db-override"]
          def database_override=(name)
            Thread.current["[mongoid]:db-override"] = name
          end
        end
      end
      NB.run do
        NB.async do
          before = Mongoid::Threaded.database_override
          Mongoid::Threaded.database_override = 1
          print [before, Mongoid::Threaded.database_override,
                 NB.async { Mongoid::Threaded.database_override }.value].inspect
        end.value
      end
    PROGRAM
  end

  def test_chewy_before_7_2_3
    assert_equal "[client, client]", outcome(<<~PROGRAM)
      module Chewy
        VERSION = "7.2.2"
        class Strategy; end
        def self.client = Thread.current[:chewy_client] ||= :client
      end
      NB.run { print "[\#{NB.async { Chewy.client }.value}, \#{Chewy.client}]" }
    PROGRAM
  end
end
