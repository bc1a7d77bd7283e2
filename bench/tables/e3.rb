# frozen_string_literal: true

Bench.table "e3" do
  title "A thousand requests, some of which wait a second"
  question "How long do 1,000 requests take when every 200th to 10th of them waits a second in " \
           "the database, and all others make one quick query?"
  source article: "Building the Never Blocking Rails, Making Rails 12X Faster",
         author: "Mohammad A. Ali (oldmoe)", year: 2008,
         setup: "Ruby 1.9, PostgreSQL, ab with 200 at a time; one, two and four Thins behind " \
                "nginx, one Thin with NeverBlock and 12 connections"
  claim "Very heavy: one NeverBlock process does the work of a cluster of twelve. More than 200 " \
        "at a time were trouble for the clusters, up to 1,000 none for NeverBlock."
  differs <<~TEXT
    The published chart is a picture without numbers: the lines “at best” are what any number of
    processes can do at best, the seconds slept divided by what can sleep at a time. Rails 8.1,
    PostgreSQL 15, one process with a pool of 12, keep-alive connections of a program in C. Pumas
    behind nginx have one thread each, as Thin had. t₀ is what NeverBlock itself needs for a request
    that does not sleep; quick requests are answered while others sleep, so the bound is the longer
    of both times, not their sum.
  TEXT
  servers = %w[nb falcon puma12 puma5 pumas4 pumas2 puma1]
  everies = [0, 200, 100, 50, 20, 10]
  names = { 0 => "none", 200 => "5 sleep", 100 => "10 sleep", 50 => "20 sleep", 20 => "50 sleep",
            10 => "100 sleep" }
  axis :server, servers, title: "server", labels: Bench::RAILS_SERVERS,
                         quick: %w[nb falcon puma12 puma5]
  axis :every, everies, title: "of 1,000", labels: names, quick: [0, 50, 10]
  axis :clients, [200, 1000], title: "at a time", quick: [200]
  runtime "rails"
  workload "rails", requests: 1_000
  lasts 20
  patience 180
  again { |cell| cell[:server] == "nb" }
  # Sleeps vary little, and there are many of them.
  at_most(3) { |cell, _quick| cell[:every].positive? }
  at_most(1) { |cell, _quick| !%w[nb falcon].include?(cell[:server]) && cell[:every].positive? }

  slept = ->(every) { every.zero? ? 0 : 1000 / every }
  bound = lambda do |result, every, clients|
    quick = result.median({ server: "nb", every: 0, clients: clients }, "took_s")
    quick && [quick, (slept.call(every) / 12.0).ceil].max
  end

  [200, 1000].each do |clients|
    where = { clients: clients }
    view "E3 c=#{clients}", title: "1,000 requests, #{clients} at a time", unit: "s",
                            better: :lower, rows: :server, columns: :every, where: where,
                            metric: "took_s", compare: "nb", scale: :each do
      limit("twelve at best: the longer of ⌈S/12⌉ s and 1000·t₀") do |result, every|
        bound.call(result, every, clients)
      end
      limit("one Thin at best, 2008") { |_, every| slept.call(every).nonzero? }
      limit("four Thins at best, 2008") { |_, every| (slept.call(every) / 4.0).nonzero? }
    end

    view "E3 c=#{clients} share", title: "Time as a share of the bound (goal: 110 % or less)",
                                  unit: "%", better: :lower, rows: :server, columns: :every,
                                  where: where, measured: false do
      servers.each do |server|
        derived Bench::RAILS_SERVERS[server], like: server do |result, every|
          limit = bound.call(result, every, clients)
          took = result.median(where.merge(server: server, every: every), "took_s")
          took / limit * 100 if took && limit
        end
      end
    end
  end
end
