# frozen_string_literal: true

# usage: NB_CHAOS=1 ruby -Ilib -Itest test/chaos/crossings.rb FIRST LAST
# Runs {Crossing} and {Cutting} for each seed of a range on every backend, in one process; prints
# what was wrong.
require_relative "crossing"
require_relative "cutting"

# The chaos counts by the names of nb_chaos_site_t.
FAULTS = %i[order yield poll spurious short dry eintr threads gc compact].freeze

first, last = ARGV.map { |argument| Integer(argument) }
happened = FAULTS.to_h { |fault| [fault, 0] }
red = 0
first.upto(last) do |seed|
  NB::Native.backends.product([Crossing, Cutting]) do |backend, kind|
    NB::Native.chaos(seed)
    crossing = kind.new(seed, backend)
    crossing.run
    FAULTS.zip(NB::Native.chaos_counts) { |fault, count| happened[fault] += count }
    crossing.wrong << "only #{crossing.checks} checks" if crossing.checks < 150
    next if crossing.wrong.empty?

    red += 1
    puts "seed #{seed}, #{backend}: #{crossing.wrong.join("\n  ")}"
    puts "to replay: NB_CHAOS=#{seed} ruby -Ilib -Itest test/chaos/crossings.rb #{seed} #{seed}"
  end
end
passed = 2 * NB::Native.backends.size * (last - first + 1) - red
puts "#{passed} crossings passed, #{red} failed; what chaos did: #{happened}"
exit red.zero? && happened.values.sum.positive?
