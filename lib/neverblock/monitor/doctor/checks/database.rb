# frozen_string_literal: true

module NB
  # Connections to databases, compared with the fibers and with the database's limit.
  class Doctor
    # The names of Rails' adapters that our prefix can be put in front of.
    ADAPTERS = %w[postgresql mysql2 trilogy mysql sqlite3].freeze
    # Seconds that requests wait for a connection before they fail, if a short wait is intended.
    SHORT_CHECKOUT = 15
    # Whether there is a database, or an application that was not asked.
    DATABASE = lambda do |project|
      !project.booted? || project.facts.fetch("databases", []).any?
    end
    # Sequel's own, for threads: 4 connections, and 5 s until a wait for one fails.
    SEQUEL = {"max_connections" => "%d fibers share 4 connections",
              "pool_timeout" => "a request that waits 5 s for a connection fails"}.freeze
    private_constant :ADAPTERS, :SHORT_CHECKOUT, :DATABASE, :SEQUEL

    check "adapter", applies: ->(project) { project.file?("config/database.yml") } do |project|
      pattern = /adapter:\s*["']?neverblock_(?!(#{ADAPTERS.join("|")})\b)/
      project.lines(pattern, "config/database.yml").each do |line|
        problem "#{line}: no such adapter",
                cure: "use one of #{ADAPTERS.map { |name| "neverblock_#{name}" }.join(", ")}"
      end
    end

    check "pool", rails: true, applies: DATABASE do |project|
      project.facts.fetch("databases", []).each do |base|
        pool = base["pool"] or next
        next if pool >= [12, project.fibers].min || base["adapter"] == "sqlite3"

        warning "#{base["name"]}: #{pool} connections for #{project.fibers} fibers: some wait",
                cure: "config/database.yml: adapter: neverblock_#{base["adapter"]} and " \
                      "connections: 12 to 25, as many queries as the database handles well at once"
      end
    end

    check "checkout", rails: true, applies: DATABASE do |project|
      project.facts.fetch("databases", []).each do |base|
        seconds = base["checkout_timeout"].to_f
        pool = base["pool"] or next # unlimited
        next if pool >= project.fibers || seconds >= SHORT_CHECKOUT

        warning "#{base["name"]}: a request that waits #{seconds} s for a connection fails, " \
                "though #{project.fibers} fibers share #{pool} connections",
                cure: "gem \"neverblock\" in the Gemfile makes it 60 s; or checkout_timeout: 60 " \
                      "in config/database.yml"
      end
    end

    check "max_connections", rails: true, applies: DATABASE do |project|
      project.facts.fetch("databases", []).each do |base|
        limit = base["limit"] or next
        wanted = base["pool"].to_i * project.workers
        next if wanted <= limit

        problem "#{base["name"]}: #{project.workers} processes with #{base["pool"]} connections " \
                "are #{wanted}; the database allows #{limit}",
                cure: "use fewer connections per process, allow more in the database, or put " \
                      "pgbouncer in between"
      end
    end

    # The options may stand anywhere: on the next line, in a file of settings, in a URL there.
    check "sequel", applies: ->(project) { project.gems.key?("sequel") } do |project|
      place = project.lines(/\bSequel\.connect\b/).first
      options = /\b(?:#{SEQUEL.keys.join("|")})\b/
      told = project.lines(options) +
             project.lines(options, "config/**/*.{yml,yaml,erb}", ".env*")
      missing = SEQUEL.reject { |option, _| told.any? { |line| line.match?(/\b#{option}\b/) } }
      next if missing.empty? || !place

      warning "#{place}: without #{missing.keys.join(" and ")}, " \
              "#{format(missing.values.join(", and "), project.fibers)}",
              cure: "Sequel.connect(…, max_connections: 12, pool_timeout: 30)"
    end
  end
end
