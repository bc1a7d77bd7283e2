# frozen_string_literal: true

require_relative "shared/downloads"

Bench.table "g8" do
  extend Bench::Downloads
  title "Net::HTTP as it is, in a loop"
  question "How much CPU time does a download by unchanged Net::HTTP take in NeverBlock's loop, " \
           "in Async's, in a thread, and without any of these?"
  source article: "Ruby Net::HTTP performance study", author: "apocryph", year: 2008,
         setup: "Ruby 1.8.6 and 1.8.7, Linux and Windows"
  claim "The proposal: buffered reading rewritten, with select instead of Timeout."
  differs <<~TEXT
    Ruby's Net::HTTP has waited without Timeout since 1.9, so "alone" is the proposal. In NeverBlock's
    loop its bodies take a path in C, which reads past the buffer. 5 MB again and again from the sites
    of `nb rubyhttp`, one download at a time; G1 has the other ways to fill the buffer.
  TEXT
  axis :runtime, %w[blocking threads async nb], title: "run by"
  workload "stock_downloads"
  downloads :runtime, "nb"
  download_rate :runtime
end
