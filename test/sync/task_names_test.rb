# frozen_string_literal: true

require_relative "support"

# How many tasks of each name run: the gauge `nb_tasks` of /metrics.
class TaskNamesTest < Minitest::Test
  include SyncSupport

  # What runs now, without the names that no longer do.
  def running = NB::TaskNames.counts.reject { |_, count| count.zero? }

  scheduled "tasks_count_under_their_names_while_they_run" do
    gate = Thread::Queue.new
    tasks = %w[mailer mailer poller].map { |name| NB::Task.new(name: name) { gate.pop } }
    NB::Task.new { gate.pop }
    assert_equal({"mailer" => 2, "poller" => 1}, running)
    gate.close
    tasks.each(&:wait)
    assert_empty running
    assert_equal 0, NB::TaskNames.counts.fetch("mailer"), "the name that was told once is gone"
  end

  scheduled "however_a_task_ends_it_counts_no_more" do
    NB::Task.new(name: "done") { 1 }.wait
    assert_raises(KeyError) { NB::Task.new(name: "failed") { sleep(0.001) && raise(KeyError) }.wait }
    NB::Task.new(name: "cancelled") { sleep }.cancel.wait
    NB::Task.new(name: "itself") { raise NB::Cancelled }.wait
    NB::Group.run do |group|
      group.async(name: "in a group") { sleep }
      assert_equal({"in a group" => 1}, running)
      group.cancel
    end
    assert_empty running
  end

  scheduled "a_task_may_be_named_later" do
    task = NB::Task.new { sleep }
    ["first", "second", nil, "third"].each do |name|
      task.name = name
      assert_equal name ? {name => 1} : {}, running
    end
    task.cancel.wait
    task.name = "too late"
    assert_empty running
  end

  # In a child of its own: the names that were told stay for the life of a process.
  everywhere "further_names_than_there_is_room_for_are_one" do
    told = in_child do
      limit = NB::TaskNames::LIMIT
      count_of((1..limit).map { |number| "kind #{number}" })
      count_of((1..limit + 7).map { |number| "kind #{number}" } + ["other"])
    end
    assert_equal [1] * NB::TaskNames::LIMIT + [8], told.values
    assert_equal "other", told.keys.last
  end

  everywhere "a_name_of_any_bytes_is_told_as_short_utf_8" do
    told = in_child do
      count_of([:symbol, "\xFF\xFE", "\u00e9".encode("ISO-8859-1"), "x".encode("UTF-16LE"),
                "a" * 1000, "\x2B".dup.force_encoding("UTF-7"), "\xC3".b])
    end
    assert_equal ["symbol", "\u{FFFD}\u{FFFD}", "\u00e9", "x", "a" * 60, "\u{FFFD}", "other"],
      told.keys
  end

  def test_in_a_forked_child_only_the_task_that_forked_counts
    told = in_fiber(:neverblock) do
      NB::Task.new(name: "parent") { sleep(0.001) }
      NB::Task.new(name: "survivor") { in_child { NB::TaskNames.counts } }.value
    end
    assert_equal({"survivor" => 1, "other" => 0}, told)
  end

  # The tasks of several loops, each on a thread, that begin and end all the time.
  def test_threads_lose_no_count
    readers = Array.new(2) { Thread.new { 200.times { NB::TaskNames.counts } } }
    Array.new(4) do
      Thread.new do
        in_fiber(:neverblock) do
          300.times { NB::Task.new(name: "short") { Thread.pass } }
        end
      end
    end.each(&:join)
    readers.each(&:join)
    assert_empty running
  end

  private

  # @return [Hash] what is told while a task of each of these names runs
  def count_of(names)
    gate = Thread::Queue.new
    in_fiber(:neverblock) do
      tasks = names.map { |name| NB::Task.new(name: name) { gate.pop } }
      counts = NB::TaskNames.counts
      gate.close
      tasks.each(&:wait)
      counts
    end
  end

  def in_child(&block) = NB::ForkedWorker.run(&block)
end
