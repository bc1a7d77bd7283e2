# frozen_string_literal: true

# The worker of a queue of Rails, a process of its own that the cell starts: the cell itself only
# enqueues.
Bench.runtime "jobs" do
  label "jobs"
  needs_ruby "3.3", "the tables of jobs are measured on Ruby 3.3 or newer"
  needs "setpriv", "setsid"
  gems do
    { "activerecord" => "8.1.4", "activejob" => "8.1.4", "railties" => "8.1.4", "pg" => "1.7.0",
      "solid_queue" => "1.7.2", "sidekiq" => "8.1.7", "async" => "2.46.0" }
  end
end
