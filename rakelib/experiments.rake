# frozen_string_literal: true

desc "Write docs/EXPERIMENTS.md: every row of the articles, its command, its page"
task :experiments do
  require_relative "../bench/bench"
  Bench::Report::Rows.write
end
