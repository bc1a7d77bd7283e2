# frozen_string_literal: true

module Apps
  # Rails' own view of job queues, over the tables of Solid Queue.
  class MissionControlJobs < Application
    def label = "Mission Control Jobs with Solid Queue"
    def version = "1.3.1"

    def make(workshop)
      gems = { "mission_control-jobs" => version, "solid_queue" => "~> 1.2" }
      workshop.generate("~> 8.1.0", gems, "-d", "postgresql")
      workshop.run("bundle", "install", "--quiet")
      workshop.run("bundle", "exec", "rails", "generate", "solid_queue:install")
      workshop.write("config/routes.rb", <<~RUBY)
        Rails.application.routes.draw do
          get "up" => "rails/health#show"
          mount MissionControl::Jobs::Engine, at: "/jobs"
        end
      RUBY
      workshop.write("config/initializers/jobs.rb", <<~RUBY)
        Rails.application.config.active_job.queue_adapter = :solid_queue
        Rails.application.config.solid_queue.connects_to = nil
        MissionControl::Jobs.http_basic_auth_enabled = false
      RUBY
      workshop.write("app/jobs/visit_job.rb", <<~RUBY)
        class VisitJob < ApplicationJob
          def perform(number) = raise("job \#{number} fails")
        end
      RUBY
    end

    def setup = ["bundle exec rails runner load(\"db/queue_schema.rb\")"]

    def seeds
      <<~RUBY
        %w[default mail reports].each do |queue|
          40.times { |number| VisitJob.set(queue: queue).perform_later(number) }
        end
        SolidQueue::ReadyExecution.first(30).each { |one| one.job.failed_with(RuntimeError.new("no")) }
        10.times { |number| VisitJob.set(wait: 1.year).perform_later(number) }
      RUBY
    end

    def paths = %w[/jobs]
  end
end
