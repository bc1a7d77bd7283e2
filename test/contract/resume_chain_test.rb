# frozen_string_literal: true

require_relative "../support/contract"

# A fiber has resumed another one, such as an Enumerator's, and that one a third, which waits or
# computes. What is meant for the one in the middle comes out of the third.
class ResumeChainTest < Contract
  class Special < StandardError; end

  def in_fiber(&block) = Fiber.new(&block).resume

  contract "a timeout in the middle ends a wait at the end" do
    assert_takes(0.02) do
      assert_raises(Timeout::Error) { in_fiber { Timeout.timeout(0.02) { in_fiber { sleep } } } }
    end
    value = in_fiber do
      Timeout.timeout(0.02, Special) { in_fiber { in_fiber { Queue.new.pop } } }
    rescue Special
      sleep(0.001) && :went_on
    end
    assert_equal :went_on, value
  end

  contract "of two timeouts in the middle the one that is due strikes" do
    [[0.02, 5, Special], [5, 0.02, IOError]].each do |outer, inner, struck|
      assert_raises(struck) do
        in_fiber do
          Timeout.timeout(outer, Special) do
            in_fiber { Timeout.timeout(inner, IOError) { in_fiber { sleep } } }
          end
        end
      end
    end
  end

  contract "a timeout in the middle ends a block that computes there or at the end", gap: nil do
    start = clock
    compute = -> { nil while clock - start < 5 }
    assert_raises(Special) { in_fiber { Timeout.timeout(0.02, Special) { compute.call } } }
    assert_raises(Special) do
      in_fiber { Timeout.timeout(0.02, Special) { in_fiber { compute.call } } }
    end
    assert_operator clock - start, :<, 4 * PATIENCE
  end

  contract "a timeout of an enumerator that reads another", ruby: ">= 3.2" do
    source = Enumerator.new { |list| 2.times { |i| (list << i) && sleep(i * 5) } }
    reader = Enumerator.new { |list| 3.times { list << Timeout.timeout(0.02) { source.next } } }
    assert_equal [0, 1], [reader.next, reader.next]
    assert_raises(Timeout::Error) { reader.next }
  end

  # Also one that has left the section of its timeout by Fiber.yield is no longer in the way.
  contract "a timeout in the middle strikes nobody when its fiber is suspended", only: :fibers do
    suspended = Fiber.new { Timeout.timeout(0.005, Special) { Fiber.yield(:first) && :second } }
    assert_equal :first, suspended.resume
    assert_equal :undisturbed, (in_fiber { in_fiber { sleep(0.01) && :undisturbed } })
  end

  contract "a failed group in the middle cancels its block at the end", only: :fibers do
    assert_raises(Special) do
      in_fiber do
        NB.group do |group|
          group.async { sleep(0.001) && raise(Special) }
          in_fiber { sleep }
        end
      end
    end
  end

  contract "a shield in the middle holds back what is meant for the first", only: :fibers do
    steps = []
    strand = parked do
      in_fiber { NB.shield { in_fiber { sleep(0.02) && steps << :whole } } }
      steps << :never
    end
    strand.interrupt(special = Special.new("now"))
    assert_same special, strand.failure
    assert_equal [:whole], steps
  end
end
