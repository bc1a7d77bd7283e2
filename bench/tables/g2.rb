# frozen_string_literal: true

require_relative "shared/downloads"

Bench.table "g2" do
  extend Bench::Downloads
  title "Net::HTTP beside other clients"
  question "How much CPU time does a download take with each HTTP client?"
  source article: "Ruby Net::HTTP performance study", author: "apocryph", year: 2008,
         setup: "Net::HTTP, rfuzz changed to read in parts, curb; a sequel adds EventMachine"
  claim "rfuzz and curb need less CPU time than any Net::HTTP: its buffer copies too often."
  differs <<~TEXT
    rfuzz is long gone; http.rb is its heir, with a parser in C and a buffer that it uses again.
    curb, patron and Typhoeus are libcurl; the program curl shows what C needs: the CPU time of its
    start by Ruby is measured without a download, and subtracted. (Samples before this was done make it
    the slowest.) All give the body in parts, except patron. The sites of `nb rubyhttp`, 5 MB again
    and again. `nb bench g2 --ruby PATH` adds a Ruby, as the sequel did.
  TEXT
  labels = { "stock" => "Net::HTTP", "curb" => "curb", "http.rb" => "http.rb",
             "httpx" => "httpx", "excon" => "excon", "patron" => "patron",
             "typhoeus" => "Typhoeus", "async-http" => "async-http",
             "em-http-request" => "em-http-request", "curl" => "curl, the program" }
  axis :impl, labels.keys, title: "client", labels: labels
  workload "http_clients"
  runtime "http_clients"
  downloads :impl, "stock"
  download_rate :impl
end
