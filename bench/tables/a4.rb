# frozen_string_literal: true

Bench.table "a4" do
  title "Any library over Net::HTTP, in a pool of fibers"
  question "How long do 50, 1,000 and 10,000 requests at once take with libraries that use " \
           "Net::HTTP, when each answer comes after one second?"
  source article: "Ruby Networking on Steroids", author: "Mohammad A. Ali (oldmoe)", year: 2008
  claim "Whatever uses Net::HTTP profits, such as the clients of Amazon's services; a pool of " \
        "1,000 fibers brings “even higher” concurrency."
  differs <<~TEXT
    The article has no number for it. Each fiber of an NB::FiberPool makes one request to
    `nb delayd`; Amazon's own gem asks the same server for an object, over one HTTP pool. Where the time is far above the second, this process's CPU time is what it takes.
  TEXT
  axis :library, %w[net/http rest-client httparty faraday aws-sdk-s3], title: "library"
  axis :count, [50, 1_000, 10_000], title: "fibers", quick: [50, 1_000]
  workload "libraries"
  runtime "nb_pool"
  gems "rest-client" => "2.1.0", "httparty" => "0.24.3", "faraday" => "2.15.1",
       "aws-sdk-s3" => "1.238.0"
  server :delayd
  lasts 4
  patience 240
  at_most(3) { |cell, _quick| cell[:library] == "aws-sdk-s3" && cell[:count] == 10_000 }
  again { |cell| cell[:library] == "net/http" }

  view "A4", title: "Time of all requests", unit: "s", better: :lower, rows: :library,
             columns: :count, cpu: true do
    limit("the delay") { 1.0 }
  end
  view "A4 CPU", title: "CPU time per request", unit: "µs", better: :lower, rows: :library,
                 columns: :count, metric: "cpu_us_per_op", amount: true
end
