# frozen_string_literal: true

require_relative "shared/downloads"

Bench.table "g1" do
  extend Bench::Downloads
  title "Ways to fill Net::HTTP's buffer"
  question "How much CPU time does a download take with each way of reading, from fast sites and " \
           "slow ones?"
  source article: "Ruby Net::HTTP performance study", author: "apocryph", year: 2008,
         setup: "10 MB from five cities, Ruby 1.8.6 and 1.8.7, Linux and Windows; charts as images"
  claim "1 KB with Timeout is worst; 16 KB without it is the best of Net::HTTP; select costs " \
        "more than no timeout, 64 KB more than 16 KB; % CPU is highest where the line is " \
        "fastest."
  differs <<~TEXT
    `nb rubyhttp`: the sites are a process on this machine with limited speeds; 5 MB again and
    again until the sample is long enough. The ways are subclasses of Net::BufferedIO. The article divided
    CPU time by the clock, by which a slow line costs less; by the gigabyte it costs more, because the
    bytes come in more and smaller parts. splice(2) moves the body through a pipe to /dev/null, so
    that none of it reaches Ruby.
  TEXT
  impls = { "stock" => "stock", "custom-1kbuffer-timeout" => "1 KB, timeout",
            "custom-16kbuffer" => "16 KB, timeout", "custom-16kbuffer-notimeout" => "16 KB",
            "custom-16kbuffer-select" => "16 KB, select",
            "custom-16kbuffer-selectwithsysread" => "16 KB, select, sysread",
            "custom-16kbuffer-reuse" => "16 KB, one String",
            "custom-64kbuffer-notimeout" => "64 KB", "custom-64kbuffer-select" => "64 KB, select",
            "custom-64kbuffer-direct" => "64 KB, past the buffer",
            "custom-256kbuffer-notimeout" => "256 KB", "custom-1mbuffer-notimeout" => "1 MB",
            "custom-copystream" => "IO.copy_stream", "custom-splice" => "splice, nothing read" }
  axis :impl, impls.keys, title: "way", labels: impls
  workload "buffers"
  runtime "blocking"
  downloads :impl, "stock", sites: %w[dallas seattle london]
  view "G1 %", title: "CPU time by clock, as the article has it", unit: "%", better: :lower,
               rows: :impl, columns: :site, metric: "cpu_percent"
end
