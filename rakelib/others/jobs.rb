# frozen_string_literal: true

module Others
  # Tests of gems that run jobs, now or later.
  module Jobs
    # Of GoodJob what waits, locks and keeps values of threads.
    GOOD_JOB = %w[app/models/concerns/good_job/advisory_lockable
                 app/models/good_job/{batch,process,job/lockable}
                 integration/{adapter,batch,capsule,jobs,lock_strategy,process_locks,scheduler}
                 lib/good_job/active_job_extensions/{batches,concurrency}
                 lib/good_job/{adapter,bulk,capsule,capsule_tracker,cleanup_tracker,cron_manager}
                 lib/good_job/{current_thread,daemon,multi_scheduler,notifier,poller,probe_server}
                 lib/good_job/{scheduler,shared_executor,thread_status}
                 lib/good_job/adapter/inline_buffer].map { |name| "spec/#{name}_spec.rb" }.freeze

    # Of Resque all but its errors for Airbrake, and resque-web as a daemon.
    RESQUE = %w[child_killing failure_base job_hooks job_plugins logging plugin rake resque-web
                resque_* resque server_helper stat worker]
             .map { |name| "test/#{name}_test.rb" }.freeze

    # Of Solid Queue all but what starts Puma by Bundler.
    SOLID_QUEUE = %w[test/*_test.rb test/integration/*_test.rb test/models/**/*_test.rb
                     test/unit/*_test.rb].freeze

    # Of Sidekiq's unique jobs all but their pages, and what measures.
    UNIQUE = %w[spec/{jobs,sidekiq,workers}/**/*_spec.rb spec/sidekiq_unique_jobs/[!w]*_spec.rb
                spec/sidekiq_unique_jobs/[!w]*/**/*_spec.rb].freeze

    # As in Others::GEMS.
    GEMS = {
      "activejob-status" => ["inkstak/activejob-status", "v1.0.2", "v1.0.2", :rspec,
                             %w[spec/specs/**/*_spec.rb]],
      "delayed-job" => ["collectiveidea/delayed_job", "v4.2.0", "v4.2.0", :rspec,
                        %w[spec/*_spec.rb spec/delayed/*_spec.rb]],
      "delayed_job_active_record" => ["collectiveidea/delayed_job_active_record", "v4.1.11",
                                      "v4.1.11", :rspec, %w[spec/**/*_spec.rb], :delayed_job],
      "good_job" => ["bensheldon/good_job", nil, "v4.19.2", :rspec, GOOD_JOB, :good_job],
      "job-iteration" => ["Shopify/job-iteration", nil, "v1.15.0", :minitest,
                          %w[test/unit/*_test.rb], :job_iteration],
      "que" => ["que-rb/que", "v2.4.1", "v2.4.1", :minitest, %w[spec/**/*_spec.rb], :que, nil,
                "json < 3"],
      "queue_classic" => ["QueueClassic/queue_classic", "4.0.0", "4.0.0", :minitest,
                          %w[test/*_test.rb test/lib/*_test.rb], :queue_classic],
      "resque" => ["resque/resque", "v3.0.0", "v3.0.0", :minitest, RESQUE, :resque, nil,
                   "json < 3"],
      "resque-scheduler" => ["resque/resque-scheduler", nil, "v5.0.0", :test_unit,
                             %w[test/*_test.rb], :resque_scheduler, nil, "json < 3"],
      "rufus-scheduler" => ["jmettraux/rufus-scheduler", "v3.9.2", "v3.9.2", :rspec,
                            %w[spec/schedule_*_spec.rb spec/{error,threads,lock_custom}_spec.rb]],
      "shoryuken" => ["ruby-shoryuken/shoryuken", nil, "v7.0.3", :rspec, %w[spec/lib/**/*_spec.rb],
                      :no_coverage],
      "sidekiq" => ["sidekiq/sidekiq", nil, "v8.1.7", :minitest, %w[test/**/*_test.rb],
                    :default_redis],
      "sidekiq-cron" => ["sidekiq-cron/sidekiq-cron", nil, "v2.3.1", :minitest,
                         %w[test/unit/*_test.rb], :default_redis],
      "sidekiq-throttled" => ["ixti/sidekiq-throttled", nil, "v2.1.0", :rspec,
                              %w[spec/lib/**/[!w]*_spec.rb], :sidekiq_throttled],
      "sidekiq-unique-jobs" => ["mhenrixon/sidekiq-unique-jobs", nil, "v8.1.0", :rspec, UNIQUE,
                                :unique_jobs],
      "solid-queue" => ["rails/solid_queue", nil, "v1.5.0", :minitest, SOLID_QUEUE, :solid_queue],
      "sucker_punch" => ["brandonhilkert/sucker_punch", "v3.3.0", "v3.3.0", :minitest,
                         %w[test/**/*_test.rb]]
    }.freeze
  end
end
