# frozen_string_literal: true

require_relative "../served/web_server"

# `nb serve` as it comes.
Bench.web_server "nb_server" do
  label "NeverBlock"
  settings "nb serve as it comes, no log"
  ours
  home "puma"
  serve do |port, rackup|
    root = File.expand_path("../..", __dir__)
    workers = params.fetch(:workers)
    [*Bench::Runtime.ruby, "-I#{root}/lib", "#{root}/exe/nb", "serve", "-q", "-C", "-",
     "-b", "tcp://127.0.0.1:#{port}", *(["-w", workers.to_s] if workers > 1), rackup]
  end
end
