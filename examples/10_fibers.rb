# frozen_string_literal: true

# What a fiber is: a block that can stop in the middle and continue later. This is plain Ruby; for
# every wait, the loop does exactly this.
#
# Run: ruby -Ilib examples/10_fibers.rb
# Prints:
#   first resume: one
#   second resume: got 2, then three
#   third resume: the end
#   alive: false
#   fourth resume: FiberError
#   fibers of two tasks take turns: a1 b1 a2 b2

require "neverblock"

fiber = Fiber.new do
  got = Fiber.yield("one")
  Fiber.yield("got #{got}, then three")
  "the end"
end
puts "first resume: #{fiber.resume}"
puts "second resume: #{fiber.resume(2)}"
puts "third resume: #{fiber.resume}"
puts "alive: #{fiber.alive?}"
begin
  fiber.resume
rescue FiberError => error
  puts "fourth resume: #{error.class}"
end

order = []
NB.run do
  %w[a b].each do |name|
    NB.async { [1, 2].each { |turn| (order << "#{name}#{turn}") && sleep(0) } }
  end
end
puts "fibers of two tasks take turns: #{order.join(" ")}"
