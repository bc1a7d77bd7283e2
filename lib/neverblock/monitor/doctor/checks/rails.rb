# frozen_string_literal: true

module NB
  # What a Rails application sets.
  class Doctor
    check "boot", rails: true do |project|
      next unless project.boot_error

      problem "the application does not boot: #{project.boot_error}",
              cure: "make `ruby -e 'require \"./config/environment\"'` work in " \
                    "#{project.folder}; until then doctor only reads its files"
    end

    check "rails" do |project|
      version = project.gems["activerecord"] || project.facts["rails"] or next
      next if Gem::Version.new(version) >= Gem::Version.new("7.2")

      problem "Rails #{version} holds a connection from a query to the end of the request",
              cure: "use Rails 7.2 or later, which returns it after each query"
    end

    check "isolation", rails: true do |project|
      level = project.facts["isolation"]
      set = project.lines(/isolation_level\s*=\s*:thread/, "config/**/*.rb")
      next unless level ? level != "fiber" : set.any?

      problem "isolation_level is :#{level || "thread"}: requests on one thread share " \
              "connections, Current and the time zone#{" (#{set.first})" if set.any?}",
              cure: if set.any?
                      "delete that line, or make it :fiber"
                    else
                      "gem \"neverblock\" in the Gemfile sets it; or, in config/application.rb, " \
                        "config.active_support.isolation_level = :fiber"
                    end
    end

    check "active record" do |project|
      next if project.rails? || !project.gems["activerecord"]

      set = project.lines(/isolation_level\s*=\s*:thread/).first
      if set || Drivers.status.find { |one| one.name == "active_record" }.state == :off
        problem "all fibers of a thread share one connection to the database" \
                "#{" (#{set})" if set}",
                cure: set ? "delete that line" : "keep active_record out of NB_DRIVERS"
      else
        note "its connections and transactions belong to fibers inside a loop",
             cure: "nothing to do; `connections:` says how many there are (docs/DATABASES.md)"
      end
    end

    check "concurrency", rails: true do |project|
      set = project.lines(/allow_concurrency\s*=\s*false/, "config/**/*.rb")
      lock = project.facts.fetch("middleware", []).include?("Rack::Lock")
      next unless lock || set.any?

      problem "one request at a time: Rack::Lock is in the middleware" \
              "#{" (#{set.first})" if set.any?}",
              cure: "remove config.allow_concurrency = false"
    end

    check "timeouts" do |project|
      found = project.facts.fetch("middleware", project.gems.keys)
      next unless (found & %w[Rack::Timeout rack-timeout]).any?
      next if project.facts.fetch("drivers", []).any? do |driver|
        driver.values_at("name", "state") == %w[rack-timeout on]
      end

      warning "rack-timeout raises in a thread; all requests of a process share one here, so it " \
              "may hit another request",
              cure: "gem \"neverblock\" in the Gemfile makes it raise in the fiber; or the " \
                    "server's own `request_timeout 15` in config/neverblock.rb"
    end
  end
end
