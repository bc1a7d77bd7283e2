# frozen_string_literal: true

# One page, written three times: as blocking code, with callbacks, and as the same blocking code in
# a fiber. The third reads like the first and is as fast as the second.
#
# Run: ruby -Ilib examples/09_three_forms.rb
# Prints:
#   blocking  a post, 2 comments; 3 pages took 0.6 s
#   callbacks a post, 2 comments; 3 pages took 0.2 s
#   fibers    a post, 2 comments; 3 pages took 0.2 s

require "neverblock"

# Two queries; the second needs the first.
module Blog
  def self.post = sleep(0.1) && "a post"
  def self.comments(_post) = sleep(0.1) && %w[yes no]
  def self.post_later(&done) = Thread.new { done.call(post) }
  def self.comments_later(post, &done) = Thread.new { done.call(comments(post)) }
end

def show
  post = Blog.post
  "#{post}, #{Blog.comments(post).size} comments"
end

def show_later
  Blog.post_later { |post| Blog.comments_later(post) { |c| yield "#{post}, #{c.size} comments" } }
end

def report(name, start = Process.clock_gettime(Process::CLOCK_MONOTONIC))
  pages = yield
  took = Process.clock_gettime(Process::CLOCK_MONOTONIC) - start
  puts "#{name.ljust(9)} #{pages.uniq.join}; #{pages.size} pages took #{took.round(1)} s"
end
report("blocking") { Array.new(3) { show } }
pages = Queue.new
report("callbacks") { 3.times { show_later { pages << _1 } } && Array.new(3) { pages.pop } }
report("fibers") { NB.run { NB.map(1..3, concurrency: 3) { show } } }
