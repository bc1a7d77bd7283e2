# frozen_string_literal: true

require_relative "../support/contract"

# $~ and $1 in the blocks of one method: each strand has its own, as each thread has.
class MatchesTest < Contract
  TEXTS = %w[a1 b2 c3].freeze
  NUMBERS = %w[1 2 3].freeze

  # What all blocks of a method share, unless Ruby or the loop knows whose they are.
  def last_matches(&start)
    values = TEXTS.map do |text|
      start.call(lambda do
        text =~ /(\d)/
        2.times { sleep(0.002) && GC.start }
        [$1, $~.pre_match, [1].map { $1 }]
      end)
    end
    values.map(&:value)
  end

  contract "after a wait they are what they were", gap: nil do
    expected = TEXTS.map { |text| [text[1], text[0], [text[1]]] }
    assert_equal expected, last_matches { |work| fibers? ? NB.async(&work) : Thread.new(&work) }
  end

  contract "in tasks", only: :fibers, gap: nil do
    expected = TEXTS.map { |text| [text[1], text[0], [text[1]]] }
    assert_equal expected, last_matches { |work| NB.timeout(5) { NB.async(name: "named", &work) } }
    assert_equal(expected, NB.group { |group| last_matches { |work| group.async(&work) } })
  end

  contract "in the blocks of gather and map", only: :fibers do
    works = TEXTS.map { |text| -> { text =~ /(\d)/ && sleep(0.002) && $1 } }
    assert_equal NUMBERS, NB.gather(*works)
    found = NB.map(TEXTS, concurrency: 3) { |text| text =~ /(\d)/ && sleep(0.002) && $1 }
    assert_equal NUMBERS, found
  end

  contract "in a fiber pool, whose fibers go on with other blocks", only: :fibers do
    found = []
    pool = NB::FiberPool.new(2)
    TEXTS.each { |text| pool.spawn { text =~ /(\d)/ && sleep(0.002) && found << $1 } }
    pool.spawn { found << $1.inspect }
    pool.close.wait
    assert_equal [*NUMBERS, "nil"], found.sort
  end

  contract "in Fiber.schedule, and not around it", only: :fibers do
    found = Thread::Queue.new
    "z9" =~ /(\d)/
    TEXTS.each { |text| Fiber.schedule { text =~ /(\d)/ && sleep(0.002) && found << $1 } }
    assert_equal NUMBERS, Array.new(3) { found.pop }.sort
    assert_equal "9", $1
  end
end
