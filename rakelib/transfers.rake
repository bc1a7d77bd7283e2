# frozen_string_literal: true

desc "Write docs/TRANSFERS.md from the samples that it names, or from those of a directory"
task :transfers, [:directory] do |_, arguments|
  require_relative "../bench/transfers/page"
  Bench::Transfers::Page.write(arguments[:directory] || Bench::Transfers::Page.directory)
end

namespace :transfers do
  desc "Measure what docs/TRANSFERS.md shows and DIRECTORY lacks: all parts, or those named"
  task :measure, [:directory] do |_, arguments|
    require_relative "../bench/transfers/measurement"
    parts = arguments.extras.empty? ? Bench::Transfers::PARTS.keys : arguments.extras
    passes = Integer(ENV.fetch("PASSES", Bench::Transfers::PASSES))
    Bench::Transfers::Measurement.new(arguments.fetch(:directory), parts, passes: passes)
                                 .run { |text| puts text }
  end
end
