# frozen_string_literal: true

require_relative "../served/web_server"

# What the article of 2014 had, without its rainbows: Thin on EventMachine, a fiber per request.
Bench.web_server "thin_em", gems: { "eventmachine" => "1.2.7", "thin" => "2.0.1" } do
  label "EventMachine and fibers"
  settings "Thin, one process; mysql2's own client for EventMachine in fibers that its callbacks " \
           "resume; room for 20,000 connections, a listen queue of 4,096 (EventMachine: 100)"
  serve do |port, rackup|
    page = File.join(File.dirname(rackup), "lookups_em.ru")
    ["thin", "-R", page, "-a", "127.0.0.1", "-p", port.to_s, "-e", "production", "-q",
     "--max-conns", "20000", "start"]
  end
end
