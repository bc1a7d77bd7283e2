# frozen_string_literal: true

# Crawls a site: reads every page that the first one leads to, at most ten at a time and fifty a
# second. A page that fails is tried again, then reported.
#
# Run: ruby -Ilib examples/cookbook/crawler.rb http://127.0.0.1:8080/
# Ctrl-C: pages in progress are read to their end, and no new ones begin; a second one stops them.

require "net/http"
require "neverblock"

START = URI(ARGV.fetch(0))
SEEN = Hash.new # path => true
AT_ONCE = NB::Limiter.new(10)
RATE = NB::Limiter.new(50, per: 1.0)

def visit(uri, group)
  return if uri.host != START.host || SEEN.key?(uri.path)

  SEEN[uri.path] = true
  group.async(name: uri.path) do
    links = AT_ONCE.with { NB.stopping? ? [] : read(uri) }
    links.each { |link| visit(link, group) }
  end
end

def read(uri)
  page = NB.retry { RATE.with { NB.timeout(5) { Net::HTTP.get(uri) } } }
  puts "#{uri.path} #{page.bytesize} bytes"
  page.scan(/href="([^"]+)"/).map { |(link)| uri + link }
rescue StandardError => error
  puts "#{uri.path} #{error.class}: #{error.message}"
  []
end

NB.run(on_interrupt: :drain) { NB.group { |group| visit(START, group) } }
