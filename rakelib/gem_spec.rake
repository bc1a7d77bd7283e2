# frozen_string_literal: true

namespace :test do
  desc "Run the examples of the gem fiber_scheduler_spec (installed on first use)"
  task gem_spec: :compile do
    ruby "test/gem_spec/run.rb"
  end
end
