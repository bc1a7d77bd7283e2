# frozen_string_literal: true

# Several things at once, with their results in order. A group ends when everything in it has ended.
# If one part fails, the others are cancelled, and none is left behind.
#
# Run: ruby -Ilib examples/03_together.rb
# Prints:
#   gather: ["user", "posts"]
#   map: [1, 4, 9, 16, 25, 36]
#   first: mirror 2
#   group: cancelled while it slept
#   group: no such page

require "neverblock"

NB.run do
  both = NB.gather(-> { sleep(0.02) && "user" }, -> { sleep(0.01) && "posts" })
  puts "gather: #{both}"
  puts "map: #{NB.map(1..6, concurrency: 3) { |number| sleep(0.01) && number**2 }}"
  puts "first: #{NB.first(-> { sleep(1) && "mirror 1" }, -> { sleep(0.01) && "mirror 2" })}"

  NB.group do |group|
    group.async { raise "no such page" if sleep(0.01) }
    group.async do
      sleep 1
    rescue NB::Cancelled
      puts "group: cancelled while it slept"
      raise
    end
  end
rescue RuntimeError => error
  puts "group: #{error.message}"
end
