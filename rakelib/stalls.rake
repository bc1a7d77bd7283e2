# frozen_string_literal: true

desc "Stop a loop in sixteen ways, so many times each: does the watchdog name the right lines?"
task :stalls, [:times] => :compile do |_, arguments|
  ruby "-Ilib", "-Itest", "test/stalls/planted.rb", *arguments.to_a
end

namespace :stalls do
  desc "Serve without a stall for so many seconds (600): does the watchdog report nothing?"
  task :quiet, [:seconds] => :compile do |_, arguments|
    ruby "-Ilib", "-Itest", "test/stalls/quiet.rb", *arguments.to_a
  end

  desc "Measure what the watchdog costs in so many pairs: [pairs (100), kinds (echo hello rails)]"
  task :cost, [:pairs] => :compile do |_, arguments|
    sh({"NB_WATCHDOG" => nil}, RbConfig.ruby, "-Ilib", "-Itest", "test/stalls/cost.rb",
       *arguments.to_a)
  end
end
