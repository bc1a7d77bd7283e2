# frozen_string_literal: true

desc "Stand a loop still in sixteen ways, so many times each; does the watchdog name the lines?"
task :stalls, [:times] => :compile do |_, arguments|
  ruby "-Ilib", "-Itest", "test/stalls/planted.rb", *arguments.to_a
end

namespace :stalls do
  desc "Serve without a stall for so many seconds (600): does the watchdog keep silent?"
  task :quiet, [:seconds] => :compile do |_, arguments|
    ruby "-Ilib", "-Itest", "test/stalls/quiet.rb", *arguments.to_a
  end
end
