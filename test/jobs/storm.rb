# frozen_string_literal: true

require "jobs/helper"

# Three crews of processes work off one queue, as three machines would, while a test strikes them:
# kills them, stops them and starts them anew, and restarts the database. Then it counts what the
# jobs have left. Each job ({RowsJob}) writes two rows in one transaction.
#
# Subclasses know the queue: how a crew starts, when it has, which processes of it run jobs, when
# all is done.
class QueueApp::Storm
  include Patience

  CREWS = 3
  # How many jobs a test has.
  COUNT = Integer(ENV.fetch("NB_STORM", "200"))
  # Several minutes on a busy machine.
  BY_NAME = "takes minutes: rake jobs:storm"
  # Seconds after which jobs that are not done count as lost.
  LIMIT = [600, COUNT / 10].max
  SLICE = 1000

  # @return [Array<String>] what was done to the crews
  attr_reader :strikes

  # @param settings [Hash] of a worker, such as `fibers: 100`
  def initialize(env: {}, **settings)
    @count = COUNT
    @random = Random.new(Minitest.seed)
    @env = env
    @settings = settings
    @strikes = []
    @programs = []
  end

  # @param strikes [Array<Symbol>] names of methods below, in an order by chance, each after its
  #   share of the jobs
  # @return [self]
  def run(*strikes)
    @start = clock
    @deadline = @start + LIMIT
    enqueue
    @crews = Array.new(CREWS) { launch }
    strikes.shuffle(random: @random).each_with_index do |strike, index|
      share = @count * (index + 1) / (strikes.size + 1)
      watch { rows.count >= share }
      @strikes << "#{strike} after #{rows.count} rows"
      public_send(strike)
    end
    watch { done? }
    @crews.each { |crew| stop(crew) }
    self
  ensure
    @programs.each(&:kill)
  end

  # Kills one process that runs jobs.
  def kill_worker
    crew = some_crew
    pid = eventually { workers(crew).sample(random: @random) }
    Process.kill(:KILL, pid)
  end

  # Kills a crew with all its processes.
  def kill_crew = replace(&:kill)

  # Ends a crew as a deployment does.
  def stop_crew = replace { |crew| stop(crew) }

  def restart_database = QueueApp.place.restart

  # --- what is left ---------------------------------------------------------------------------

  # @return [ActiveRecord::Relation] one for each job that has run to its end
  def rows = Note.where(kind: "second")

  # @return [Array<Integer>] jobs that have left no row
  def lost = [*1..@count] - rows.distinct.pluck(:number)

  # @return [Array<Integer>] jobs that have left more than one row
  def doubled = rows.group(:number).having("count(*) > 1").pluck(:number)

  # @return [Array<Integer>] jobs that ran twice though the queue does not say so
  def doubled_unasked = doubled

  # @return [Array<Integer>] jobs with half of a transaction
  def torn
    counts = %w[first second].map { |kind| Note.where(kind: kind).group(:number).count }
    counts.inject { |first, second| (first.to_a - second.to_a) + (second.to_a - first.to_a) }
  end

  # What other jobs have left in the fiber, and connections left out of the pool.
  # @return [Array<String>]
  def crossed
    Note.where(kind: "mixed").pluck(:text) + exits.grep_v(/busy 0, dead 0/)
  end

  # @return [Array<String>] what processes have said that were not killed: the last ones at least
  def exits = Note.where(kind: "exit").pluck(:text)

  # @return [String] one line
  def summary
    "#{@settings} #{@count} jobs, #{@strikes.join(", ")}: #{lost.size} lost, " \
      "#{doubled.size} twice (#{doubled_unasked.size} of them unasked), #{torn.size} torn, " \
      "#{crossed.size} crossed, #{@programs.size} programs, #{(clock - @start).round} s"
  end

  # What a storm that does not end has to say.
  def so_far
    crews = @crews.to_a.map(&:tell)
    [summary, "without a row: #{lost.first(20)}", *left_over, *crews].join("\n")
  rescue ActiveRecord::ActiveRecordError => error
    [error.message, *@strikes, *crews].join("\n")
  end

  private

  def enqueue
    (1..@count).each_slice(SLICE) do |numbers|
      ActiveJob.perform_all_later(numbers.map { |number| RowsJob.new(number) })
    end
  end

  def launch = start.tap { |program| @programs << program }

  def some_crew = @crews.sample(random: @random)

  # One that is still starting would end at once, and say nothing: Ruby's own answer to TERM.
  def stop(crew)
    eventually { up?(crew) || !crew.waiter.alive? }
    crew.stop
  end

  # Ends one by the block, and starts another in its place.
  def replace
    crew = some_crew
    yield crew
    @crews[@crews.index(crew)] = launch
  end

  # Waits, and does meanwhile what a machine's init and those who look after jobs do.
  def watch
    eventually(@deadline - clock) do
      @crews.map! { |crew| crew.waiter.alive? ? crew : launch }
      mend
      yield
    rescue ActiveRecord::ActiveRecordError
      nil # the database is down
    end
  end

  # What of it an operator has to do, such as to retry jobs.
  def mend = nil

  # @return [Array<String>] what is in the queue
  def left_over = []

  def flunk(message) = raise(Minitest::Assertion, message)
end

# What a test says of a {QueueApp::Storm} that has ended.
module QueueApp::StormAssertions
  private

  def assert_sound(storm)
    assert_whole(storm)
    assert_empty storm.lost
  end

  # No half transaction, no state of another job, and each crew has ended.
  def assert_whole(storm)
    puts storm.summary
    assert_empty storm.torn
    assert_empty storm.crossed
    assert_operator storm.exits.size, :>=, QueueApp::Storm::CREWS
  end
end
