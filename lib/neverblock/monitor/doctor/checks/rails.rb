# frozen_string_literal: true

module NB
  # The settings of a Rails application.
  class Doctor
    check "boot", rails: true do |project|
      next unless project.boot_error

      problem "the application does not boot: #{project.boot_error}",
              cure: "make `ruby -e 'require \"./config/environment\"'` work in " \
                    "#{project.folder}; until then doctor only reads its files"
    end

    # The first version whose pool lends a connection per query, and which the cures support.
    OLDEST_RAILS = Gem::Version.new("7.2")
    private_constant :OLDEST_RAILS

    check "rails", rails: true do |project|
      version = project.facts["rails"] || project.gems["railties"] || project.gems["activerecord"]
      next if version.nil? || Gem::Version.new(version) >= OLDEST_RAILS

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

    check "active record",
          applies: ->(project) { !project.rails? && project.gems.key?("activerecord") } do |project|
      version = project.gems["activerecord"]
      set = project.lines(/isolation_level\s*=\s*:thread/).first
      if (cure = Doctor.cure_for_threads(version, set))
        problem "activerecord #{version}: all fibers of a thread share one connection to the " \
                "database#{" (#{set})" if set}", cure: cure
      else
        note "its connections and transactions belong to fibers inside a loop",
             cure: "nothing to do; `connections: 12` gives it more than the 5 that it has by " \
                   "itself (docs/DATABASES.md)"
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

    check "timeouts", applies: ->(project) { project.gems.any? } do |project|
      found = project.facts.fetch("middleware", project.gems.keys)
      next unless (found & %w[Rack::Timeout rack-timeout]).any?
      next if Doctor.timeouts_cured?(project)

      warning "rack-timeout raises in a thread; all requests of a process share one here, so it " \
              "may hit another request",
              cure: "gem \"neverblock\" in the Gemfile makes it raise in the fiber; or the " \
                    "server's own `request_timeout 15` in config/neverblock.rb"
    end

    class << self
      # @return [String, nil] the cure if ActiveRecord without Rails keeps its state per thread
      # @api private
      def cure_for_threads(version, set)
        if version && Gem::Version.new(version) < OLDEST_RAILS
          "use 7.2 or later: NeverBlock leaves older ones as they are"
        elsif set
          "delete that line"
        elsif left_out?("active_record")
          "keep active_record out of NB_DRIVERS"
        end
      end

      # A booted Rails application tells. Others get the cure once NeverBlock is loaded, as in `nb
      # serve`.
      #
      # @return [Boolean] whether rack-timeout raises in fibers
      # @api private
      def timeouts_cured?(project)
        if project.booted?
          state = project.facts["drivers"].find { |driver| driver["name"] == "rack-timeout" }
          return state.to_h["state"] == "on"
        end

        (!project.rails? || project.gems.key?("neverblock")) && !left_out?("rack-timeout")
      end

      private

      # Whether NB_DRIVERS excludes it.
      def left_out?(driver)
        require_relative "../../../../neverblock"
        Drivers.status.find { |one| one.name == driver }.state == :off
      end
    end
  end
end
