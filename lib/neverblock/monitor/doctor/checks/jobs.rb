# frozen_string_literal: true

module NB
  # The settings of job queues (docs/JOBS.md).
  class Doctor
    # So many connections are enough for any number of jobs that return them while they wait.
    SHARED_CONNECTIONS = 12
    # Whether there is a queue, or an application that was not asked.
    JOBS = lambda do |project|
      next project.facts["jobs"].to_a.any? if project.booted?

      (project.gems.keys & %w[solid_queue good_job sidekiq]).any?
    end
    # Whether there is Solid Queue: a plugin in config/puma.rb may be a left-over.
    SOLID_QUEUE = lambda do |project|
      next project.gems.key?("solid_queue") unless project.booted?

      project.facts["jobs"].to_a.any? { |jobs| jobs["queue"] == "Solid Queue" }
    end
    # Seconds. In less time, Sidekiq's threads still ask Redis for jobs when it pushes them back.
    SIDEKIQ_STOP = 3
    private_constant :SHARED_CONNECTIONS, :JOBS, :SOLID_QUEUE, :SIDEKIQ_STOP

    check "jobs", rails: true, applies: JOBS do |project|
      project.facts.fetch("jobs", []).each do |jobs|
        name, most = jobs.values_at("queue", "at_once")
        next if jobs["fibers"]

        note "#{name}: #{most} jobs at once in each process, in threads",
             cure: "jobs that wait for services can share one thread: docs/JOBS.md, or `nb jobs`"
      end
    end

    check "job connections", rails: true, applies: JOBS do |project|
      project.facts.fetch("jobs", []).each do |jobs|
        name, most = jobs.values_at("queue", "at_once")
        jobs["databases"].each do |database|
          base, pool = database.values_at("name", "pool")
          next if pool.nil? # unlimited

          if !jobs["fibers"]
            next if pool >= most

            warning "#{name}: #{most} threads, each with a connection while its job runs, and " \
                    "#{base} has #{pool}",
                    cure: "config/database.yml: connections: #{most}, or fewer threads"
          elsif jobs["keeps"] && pool < most
            warning "#{name}: #{most} fibers, but each job keeps a connection until it ends, and " \
                    "#{base} has #{pool}",
                    cure: "config.good_job.lock_strategy = :skiplocked (docs/JOBS.md)"
          elsif pool < [SHARED_CONNECTIONS, most].min
            warning "#{name}: #{pool} connections to #{base} for #{most} fibers: jobs wait for " \
                    "one another",
                    cure: "config/database.yml: connections: #{SHARED_CONNECTIONS}"
          end
        end
      end
    end

    check "job stops", rails: true, applies: JOBS do |project|
      project.facts.fetch("jobs", []).each do |jobs|
        name, stop = jobs.values_at("queue", "stop")
        if stop.nil?
          note "#{name}: a stop waits for running jobs without limit; if the process is killed " \
               "meanwhile, its jobs may have to wait for minutes",
               cure: "config.good_job.shutdown_timeout = 25, or what your deployment allows " \
                     "between TERM and KILL, less 5 s"
        elsif name == "Sidekiq" && !jobs["fibers"] && stop < SIDEKIQ_STOP
          warning "Sidekiq: with a timeout of #{stop} s, a stop can lose jobs of its threads",
                  cure: "config/sidekiq.yml: timeout: #{SIDEKIQ_STOP} or more, or fibers: true"
        end
      end
    end

    check "job workers", rails: true, applies: SOLID_QUEUE do |project|
      next if project.lines(/plugin\s*\(?\s*:neverblock/, "config/puma.rb").any?

      project.lines(/plugin\s*\(?\s*:solid_queue/, "config/puma.rb").each do |line|
        note "#{line}: only Puma starts these workers",
             cure: "if nb serve is the server, also start `nb jobs` or `bin/jobs`"
      end
    end

    check "job processes", rails: true, applies: JOBS do |project|
      project.facts.fetch("jobs", []).group_by { |jobs| jobs["queue"] }.each do |name, all|
        processes = all.sum { |jobs| jobs["processes"] }
        all.first["databases"].each do |database|
          base, pool = database.values_at("name", "pool")
          limit = project.facts["databases"].find { |one| one["name"] == base }.to_h["limit"]
          next if pool.nil? || limit.nil? || pool * processes <= limit

          problem "#{name}: #{processes} processes with #{pool} connections are " \
                  "#{pool * processes}; #{base} allows #{limit}",
                  cure: "use fewer processes or connections, allow more in the database, or put " \
                        "pgbouncer in between"
        end
      end
    end
  end
end
