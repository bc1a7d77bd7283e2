# frozen_string_literal: true

# Sends each line of a file to a URL, twenty at a time, and records it in FILE.sent. Whatever was
# sent is recorded, even if Ctrl-C comes in between, and whatever is recorded is not sent again.
#
# Run: ruby -Ilib examples/cookbook/webhooks.rb events.txt http://127.0.0.1:8080/hook
# Ctrl-C: what is being sent is sent and recorded, and nothing new begins; a second one cuts the
# pauses between tries short.

require "net/http"
require "neverblock"

file, url = ARGV
uri = URI(url)
sent = File.open("#{file}.sent", "a+")
sent.sync = true
left = File.readlines(file, chomp: true) - sent.each_line(chomp: true).to_a

post = lambda do |event|
  response = NB.timeout(5) { Net::HTTP.post(uri, event) }
  response.is_a?(Net::HTTPSuccess) or raise IOError, response.message
end

NB.run(on_interrupt: :drain) do
  NB.every(5) { warn "#{left.size} to send" }

  NB.map(left.dup, concurrency: 20) do |event|
    next if NB.stopping?

    NB.retry(times: 5, on: [SystemCallError, Timeout::Error, IOError]) do
      NB.shield { post.call(event) && sent.puts(event) }
    end
    left.delete(event)
  rescue StandardError => error
    warn "#{event}: #{error.class}: #{error.message}"
  end
end
warn "#{left.size} left"
