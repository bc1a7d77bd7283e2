# frozen_string_literal: true

Bench.table "s8" do
  title "Web servers with two processes"
  question "How much does a second process add when requests compute?"
  source article: "Ruby Networking on Steroids", author: "Mohammad A. Ali (oldmoe)", year: 2008,
         setup: "two client processes, dual-core notebook"
  claim "A second process brought 50 % more."
  differs <<~TEXT
    The article ran a second client (see A7); here the server gets a second process. Each request adds up
    20,000 numbers (about half a millisecond), so that the load takes little of the two cores that
    all share.
  TEXT
  axis :runtime, %w[puma falcon iodine itsi_server nb_server], title: "server"
  axis :workers, [1, 2], title: "processes"
  workload "served", kind: "burn", cores: [0, 1], load_cores: [0, 1]
  patience 40
  lasts 8
  again { |cell| cell[:runtime] == "nb_server" }

  view "S8", title: "Requests per second", unit: "req/s", rows: :runtime, columns: :workers,
             compare: "nb_server" do
    %w[nb_server puma falcon].each do |runtime|
      derived "#{Bench.runtimes[runtime].label}, two against one (×)", like: runtime do |result, n|
        one, many = [1, n].map { |workers| result.median({ runtime: runtime, workers: workers }) }
        many / one if one && many && n > 1
      end
    end
  end
end
