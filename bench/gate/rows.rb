# frozen_string_literal: true

module Bench
  # Is this tree slower than a commit before it? See {Gate::Run}.
  module Gate
    # What is measured: a workload, with parameters that make its rounds short.
    Row = Struct.new(:id, :workload, :params, :unit)

    # Each way through the library that programs take most often.
    ROWS = [
      ["echo", "tcp_echo", { messages: 25 }, "echo"],
      ["server", "rack_server", { requests: 20 }, "request"],
      ["client", "net_http", { requests: 4 }, "request"],
      ["queue", "switches", { way: "queue", turns: 8_000 }, "switch"],
      ["pipe", "switches", { way: "pipe", turns: 8_000 }, "switch"],
      ["jobs", "churn", { jobs: 1_000 }, "job"],
      ["deadlines", "timers", { timers: 1_000 }, "deadline"],
      ["sleeps", "fan_out", { coordinators: 40, cycles: 2 }, "cycle"]
    ].map { |row| Row.new(*row).freeze }.freeze
  end
end
