# frozen_string_literal: true

# One thread per job, where Ruby maps many of its threads to few of the system's.
Bench.runtime "mn" do
  label "M:N threads"
  needs_ruby "3.3", "M:N threads came with Ruby 3.3"
  variables "RUBY_MN_THREADS" => "1"
  spawn { |job| Thread.new(&job) }
end
