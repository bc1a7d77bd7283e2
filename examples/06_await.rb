# frozen_string_literal: true

# Connects any library that calls back to code that reads from top to bottom. The callback may come
# at any time and from any thread.
#
# Run: ruby -Ilib examples/06_await.rb
# Prints:
#   post 1 and post 2, took 0.1 s
#   no post 3

require "neverblock"

# A driver in callback style, which answers from a thread of its own.
class CallbackStore
  def find(id, &callback)
    Thread.new { callback.call(sleep(0.1) && id < 3 ? "post #{id}" : nil) }
  end
end

# The same store for straight-line code.
class Store
  def initialize = @driver = CallbackStore.new

  def find(id)
    post = NB.await { |resume| @driver.find(id) { |found| resume.call(found) } }
    post or raise KeyError, "no post #{id}"
  end
end

NB.run do
  start = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  posts = NB.gather(-> { Store.new.find(1) }, -> { Store.new.find(2) })
  took = (Process.clock_gettime(Process::CLOCK_MONOTONIC) - start).round(1)
  puts "#{posts.join(" and ")}, took #{took} s"
  Store.new.find(3)
rescue KeyError => error
  puts error.message
end
