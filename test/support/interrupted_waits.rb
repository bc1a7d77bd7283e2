# frozen_string_literal: true

require_relative "interrupted_run"

# In a loop. A point is the begin or the end of a hook that any of its fibers calls: there the
# victim runs, waits, or was just woken.
class InterruptedWaits < InterruptedRun
  # :cancel is Task#cancel; :parked the same, a turn later; :late and :expired a timeout.
  RAISES = { cancel: NB::Cancelled, parked: NB::Cancelled, late: Late,
             expired: Timeout::Error }.freeze
  # What a timeout without a class of its own gives the loop: a class, or from timeout 0.3 on an
  # exception.
  PLAIN = [Timeout::Error.singleton_class,
           (Timeout::ExitException if defined?(Timeout::ExitException))].compact

  # The hooks in which a fiber waits, or is woken.
  module Points
    attr_accessor :run_of_points

    %i[block unblock kernel_sleep io_wait io_read io_write io_select process_wait fiber
       blocking_operation_wait].each do |hook|
      define_method(hook) do |*arguments, **options, &block|
        run_of_points.point { super(*arguments, **options, &block) }
      end
    end
  end

  # @param backend [Symbol]
  # @return [self]
  def run(backend)
    NB.run(clock: :virtual, backend: backend) do
      @scheduler = Fiber.scheduler
      @scheduler.singleton_class.prepend(Points)
      @scheduler.run_of_points = self
      prepare(1)
      beside_servers([@kind], processes: 1) { conduct }
      note_who_waits
    end
    self
  rescue NB::DeadlockError, StandardError => error
    @wrong << error.full_message(highlight: false)
    self
  end

  # Called by each hook.
  def point
    return yield unless @active && Thread.current == @thread

    pass
    value = yield
    pass if @active
    value
  end

  private

  def conduct
    @thread = Thread.current
    gate = Thread::Queue.new
    @controller = Thread::Queue.new
    controller = NB.async { control while @controller.pop }
    tasks = names.map do |name|
      NB.async do
        gate.pop unless name == "before"
        name == "victim" ? begin_victim : other(name)
      end.tap { |task| @task = task if name == "victim" }
    end
    2.times { gate << true }
    tasks.each(&:wait)
    @active = false
    @controller.close
    controller.wait
    judge
  end

  # Not active before both timeouts count: chaos lets the others run as each begins.
  def begin_victim
    victim do
      NB.timeout(1_000) do
        NB.timeout(1_000, Late) do
          @active = true
          send(@kind, owner("victim"))
          @active = false
          sleep(0.001) # what was to come, comes
        end
      end
    end
  end

  def strike(how)
    case how
    when :late then @scheduler.__send__(:expire, Late.singleton_class)
    when :expired then PLAIN.each { |kind| @scheduler.__send__(:expire, kind) }
    when :parked then @controller << true
    else control
    end
  end

  # In a fiber of its own: a task that cancels itself leaves at once.
  def control = Fiber.new(blocking: false) { @task.cancel }.resume

  def note_who_waits
    sleep(0.001)
    left = @scheduler.waits.reject { |wait| wait[:kind] == :run }
    @wrong << "left waiting: #{left}" unless left.empty?
  end
end
