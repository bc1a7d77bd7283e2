# frozen_string_literal: true

require_relative "../support/contract"

# NB.shield: whatever is raised in the fiber waits until the section has ended.
class ShieldTest < Contract
  class Stop < Exception; end # rubocop:disable Lint/InheritException

  contract "what is raised comes when the section has ended, and only then" do
    steps = []
    gate = Queue.new
    strand = parked do
      NB.shield do
        steps << :begun
        steps << gate.pop
        sleep 0.001
        steps << :ended
      end
      steps << :never
    ensure
      steps << :ensure
    end
    strand.interrupt(stop = Stop.new("now"))
    3.times { sleep 0.001 }
    assert_equal [:begun], steps
    gate << :woken
    assert_same stop, strand.failure
    assert_equal %i[begun woken ended ensure], steps
  end

  contract "nothing is raised where nothing came" do
    assert_equal 42, NB.shield { NB.shield { sleep(0.001) && 41 } + 1 }
    assert_equal 42, NB.shield(1) { 42 }
  end

  contract "what the section raises goes its way, and what came comes at the next wait",
    only: :fibers do
    gate = Queue.new
    seen = []
    strand = parked do
      begin
        NB.shield { gate.pop && raise(ArgumentError, "its own") }
      rescue ArgumentError => error
        seen << error.message
      end
      sleep 5
    end
    strand.interrupt(stop = Stop.new)
    gate << true
    assert_same stop, strand.failure
    assert_equal ["its own"], seen
  end

  contract "a timeout that was held is not lost to an exception that comes with it",
    only: :fibers do
    late = Class.new(StandardError)
    assert_raises(late) do
      Timeout.timeout(0.01, late) do
        assert_raises(Stop) do
          NB.shield do
            sleep 0.02
            Fiber.scheduler.interrupt_at(Fiber.current, Stop.new, 1) # from within: not held
          end
        end
        sleep 5
      end
    end
  end

  contract "nested, it comes when the outermost has ended" do
    steps = []
    gate = Queue.new
    strand = parked do
      NB.shield do
        NB.shield { gate.pop }
        sleep 0.001
        steps << :outer
      end
      steps << :never
    end
    strand.interrupt(stop = Stop.new)
    gate << true
    assert_same stop, strand.failure
    assert_equal [:outer], steps
  end

  contract "a break leaves it, and what came comes at the next wait", only: :fibers do
    gate = Queue.new
    value = nil
    strand = parked do
      value = NB.shield { break gate.pop }
      sleep 5
    end
    strand.interrupt(stop = Stop.new)
    gate << :broken
    assert_same stop, strand.failure
    assert_equal :broken, value
  end

  contract "a timeout around it comes at its end, one inside in its time", only: :fibers do
    steps = []
    outer = assert_raises(Timeout::Error) do
      NB.timeout(0.01, nil, "outer") do
        NB.shield do
          inner = assert_raises(Timeout::Error) { NB.timeout(0.03, nil, "inner") { sleep 5 } }
          steps << inner.message
          sleep 0.001
          steps << :ended
        end
        steps << :never
      end
    end
    assert_equal "outer", outer.message
    assert_equal ["inner", :ended], steps
  end

  contract "a timeout does not strike while the section computes", only: :fibers, gap: nil do
    whole = false
    assert_raises(Timeout::Error) do
      NB.timeout(0.01) do
        NB.shield do
          stop = clock + 0.2 # longer than the thread that ends computing blocks waits
          nil while clock < stop
          whole = true
        end
        sleep 5
      end
    end
    assert whole
  end

  contract "of several timeouts the one that ran out first comes", only: :fibers do
    error = assert_raises(Timeout::Error) do
      NB.timeout(0.005, nil, "first") do
        NB.timeout(0.01, nil, "second") { NB.shield { sleep 0.02 } }
      end
    end
    assert_equal "first", error.message
  end

  contract "a timeout that ran out and a cancel: both come", only: :fibers do
    gate = Queue.new
    seen = []
    strand = parked do
      NB.timeout(0.005) do
        begin
          NB.shield { gate.pop }
        rescue Stop
          seen << :stop
        end
        sleep 5
      end
    rescue Timeout::Error
      seen << :timeout
    end
    strand.interrupt(Stop.new)
    sleep 0.01
    gate << true
    strand.value
    assert_equal %i[stop timeout], seen
  end

  contract "what came before comes out when the section has ended", only: :fibers do
    steps = []
    strand = strand do
      scheduler.fiber_interrupt(Fiber.current, Stop.new("first"))
      scheduler.fiber_interrupt(Fiber.current, Stop.new("second"))
      begin
        NB.shield { sleep(0.001) && steps << :whole }
      rescue Stop => error
        steps << error.message
      end
      sleep 5
    end
    assert_equal "second", strand.failure.message
    assert_equal [:whole, "first"], steps
  end

  contract "in an ensure, what waits for the next wait does not skip the section", only: :fibers do
    queue = Queue.new
    cleaned = false
    strand = parked do
      queue.pop
    ensure
      NB.shield { sleep(0.001) && cleaned = true }
    end
    queue << true
    strand.interrupt(stop = Stop.new) # it has its element: this comes at the next wait
    assert_same stop, strand.failure
    assert cleaned
  end

  contract "what came before is held no longer than the bound", only: :fibers do
    strand = strand do
      scheduler.fiber_interrupt(Fiber.current, Stop.new)
      NB.shield(0.005) { sleep 60 }
    end
    assert_instance_of Stop, strand.failure
  end

  contract "what came before for who has resumed the section's fiber is held, too",
    only: :fibers do
    steps = []
    strand = strand do
      scheduler.fiber_interrupt(Fiber.current, Stop.new)
      Fiber.new { NB.shield { sleep(0.001) && steps << :whole } && steps << :never }.resume
    end
    assert_instance_of Stop, strand.failure
    assert_equal [:whole], steps
  end

  contract "what came before is not kept by a section whose fiber is suspended", only: :fibers do
    seen = []
    strand = strand do
      scheduler.fiber_interrupt(Fiber.current, Stop.new)
      seen << Enumerator.new { |items| NB.shield { sleep(0.001) && items << 1 } }.next
      sleep 60
    end
    assert_instance_of Stop, strand.failure
    assert_equal [1], seen
  end

  contract "what came before for who has resumed the section's fiber is held within the bound",
    only: :fibers do
    strand = strand do
      scheduler.fiber_interrupt(Fiber.current, Stop.new)
      Fiber.new { NB.shield(0.005) { sleep 60 } }.resume
    end
    assert_instance_of Stop, strand.failure
  end

  contract "what came before an inner section comes when that has ended", only: :fibers do
    steps = []
    strand = strand do
      NB.shield do
        steps << :outer
        scheduler.fiber_interrupt(Fiber.current, Stop.new)
        NB.shield { sleep(0.001) && steps << :inner }
        steps << :rest
      end
      steps << :never
    end
    assert_instance_of Stop, strand.failure
    assert_equal %i[outer inner rest], steps
  end

  contract "with a bound, it comes inside after that time", only: :fibers do
    begun = Queue.new
    strand = parked do
      NB.shield(0.03) do
        begun << clock
        sleep 5
      end
    end
    sleep 0.05 # the time counts from when somebody wants to raise
    refute_predicate strand, :ended?
    asked = clock
    strand.interrupt(stop = Stop.new)
    assert_same stop, strand.failure
    assert_operator clock - asked, :>=, 0.03
  end

  contract "a bound inside of a shield without one waits for the outer", only: :fibers do
    gate = Queue.new
    steps = []
    strand = parked do
      NB.shield do
        NB.shield(0.005) { gate.pop }
        steps << :outer
      end
    end
    strand.interrupt(stop = Stop.new)
    sleep 0.01
    gate << true
    assert_same stop, strand.failure
    assert_equal [:outer], steps
  end

  contract "a bound around a shield without one waits for the inner", only: :fibers do
    gate = Queue.new
    steps = []
    strand = parked do
      NB.shield(0.005) do
        NB.shield do
          gate.pop
          steps << :inner
        end
        steps << :never
      end
    end
    strand.interrupt(stop = Stop.new)
    sleep 0.01
    gate << true
    assert_same stop, strand.failure
    assert_equal [:inner], steps
  end

  contract "an IO that another fiber closes ends its wait as always" do
    reader, writer = keep(*IO.pipe)
    strand = parked { NB.shield { reader.read(1) } }
    reader.close
    assert_instance_of IOError, strand.failure
    writer.close
  end

  contract "a fiber that it resumed is shielded as well", only: :fibers do
    gate = Queue.new
    steps = []
    strand = parked do
      Fiber.new { NB.shield { steps << gate.pop } }.resume
      steps << :never
    end
    strand.interrupt(stop = Stop.new)
    3.times { sleep 0.001 }
    gate << :inside
    assert_same stop, strand.failure
    assert_equal [:inside], steps
  end

  contract "a fiber left inside of one keeps nothing from who resumed it", only: :fibers do
    strand = parked do
      Fiber.new { NB.shield { Fiber.yield } }.resume
      sleep 5
    end
    GC.start
    strand.interrupt(stop = Stop.new)
    assert_same stop, strand.failure
  end

  contract "a group inside of one is cancelled by its tasks, one around it at its end",
    only: :fibers do
    steps = []
    error = assert_raises(ArgumentError) do
      NB.group do |outer|
        outer.async { sleep(0.01) && raise(ArgumentError, "outer") }
        NB.shield do
          NB.group { |inner| inner.async { sleep(0.02) && raise("inner") } && sleep(5) }
        rescue RuntimeError => error
          steps << error.message
        end
        steps << :never
      end
    end
    assert_equal "outer", error.message
    assert_equal ["inner"], steps
  end

  contract "a task that is cancelled in one ends behind it, and so does the loop", only: :fibers do
    inside = Queue.new
    whole = []
    work = ->(name) { (inside << name) && sleep(0.01) && whole << name }
    task = NB.async { NB.shield { work.call(:task) } && whole << :never }
    assert_equal :task, inside.pop
    assert_predicate task.cancel.wait, :cancelled?
    Thread.new do
      NB.run { NB.async { NB.shield { work.call(:loop) } } && inside.pop && raise("over") }
    rescue RuntimeError
      nil
    end.join
    assert_equal %i[task loop], whole
  end

  contract "a bad bound and no block are refused" do
    assert_raises(ArgumentError) { NB.shield }
    error = assert_raises(ArgumentError) { NB.shield(-1) { nil } }
    assert_match(/bound must be seconds/, error.message)
  end

  contract "in a forked child the section is one still", only: :fibers do
    reader, writer = keep(*IO.pipe)
    gate = Queue.new
    steps = []
    NB.shield do
      pid = fork do
        fiber = Fiber.current
        Thread.new { scheduler.fiber_interrupt(fiber, Stop.new) }.join
        begin
          sleep 0.001
          steps << :whole
        rescue Stop
          steps << :torn
        end
        writer.syswrite(steps.inspect)
        exit!
      end
      Process.wait(pid)
    end
    gate << true
    assert_equal "[:whole]", reader.readpartial(100)
  end
end
