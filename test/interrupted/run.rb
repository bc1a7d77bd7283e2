# frozen_string_literal: true

# usage: ruby -Ilib -Itest test/interrupted/run.rb [fibers|threads] [short] [WAY ...] [LIBRARY ...]
#
# In threads it runs without NeverBlock: what the libraries do by themselves. Ends with 1 if a cell
# loses. A library is named as in Libraries::ALL, such as "activerecord pg", and a way as in
# InterruptedMatrix::WAYS, such as restarted.
words = ARGV.dup
world = words.delete("threads") ? :threads : :fibers
words.delete("fibers")
short = !words.delete("short").nil?
%w[neverblock neverblock/server].each { |name| require name } if world == :fibers
require_relative "interrupted_matrix"
at_exit { Servers.stop_all } # no tests run here, which would end them

ways = InterruptedMatrix::WAYS.select { |way| words.delete(way.to_s) }
ways = InterruptedMatrix::WAYS if ways.empty?
libraries = words.any? ? Libraries::ALL.slice(*words) : Libraries::ALL
# NB::ConnectionPool is ours.
libraries = libraries.reject { |_, one| one.ours? } if world == :threads
cells = InterruptedMatrix.new(world: world, short: short, libraries: libraries.keys,
                              ways: ways).run
cells.group_by(&:client).each do |library, of|
  counts = of.map(&:verdict).tally.map { |word, count| "#{word} #{count}" }.join(", ")
  puts format("%-22<library>s %4<size>d cells: %<counts>s", library: library, size: of.size,
                                                            counts: counts)
end
losing = cells.select(&:loses?)
losing.each { |cell| puts cell.report }
puts "#{cells.size} cells, #{losing.size} that lose"
exit(losing.empty?)
