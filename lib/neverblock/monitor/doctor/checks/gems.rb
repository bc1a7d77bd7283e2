# frozen_string_literal: true

require_relative "../thread_state"

module NB
  # Gems that stop the loop, or keep a request's state in the thread.
  class Doctor
    OFFLOADED = "its calls wait in a limited number of native threads, not in the loop"
    HASHES = "hashing a password computes in C for tenths of a second; all requests wait"
    HASH_ELSEWHERE = "NB.offload { } around what sets or checks passwords (password=, authenticate)"
    # Gem => [level, problem, cure], with the cures of NB::Drivers applied. docs/TRANSPARENCY.md has
    # the measurements of each.
    GEMS = {
      "hiredis" => [:problem, "it waits in C, so all requests wait until Redis answers",
        "remove it: redis 5 and redis-client bring a driver that waits"],
      "hiredis-client" => [:warning, "waits in C on connections that are made before the loop runs",
        "remove it: redis-client's own driver waits"],
      "rdkafka" => [:warning, "`poll` and `flush` wait in C without asking the loop",
        "poll in a thread and pass messages through a Thread::Queue; NB.offload { } around flush"],
      "tiny_tds" => [:problem, "it waits in C, so all requests wait until SQL Server answers",
        "NB.offload { } around its calls, or leave what uses it to a server with threads"],
      "semian" => [:warning, "with a timeout: it waits in C for a ticket, which a fiber of the " \
                             "same loop cannot give back meanwhile",
        "leave out timeout:, or say bulkhead: false and use NB::Limiter"],
      "bcrypt" => [:note, "it hashes in a limited number of native threads", "nothing to do"],
      "argon2" => [:warning, HASHES, HASH_ELSEWHERE],
      "typhoeus" => [:note, OFFLOADED, "httpx, http or Net::HTTP wait in the loop itself"],
      "patron" => [:note, OFFLOADED, "update it to 1.0 (Ruby 3.3), which waits in the loop itself"],
      "grpc" => [:note, OFFLOADED, "fine, unless hundreds of calls run at a time"],
      "sqlite3" => [:note, "a query blocks the process until it is done",
        "short queries are fine; for slow ones use a database behind a socket"]
    }.freeze
    # From these versions on there is nothing to say.
    WELL = { "patron" => Gem::Version.new("1.0") }.freeze
    # Older versions, which keep Ruby's lock, so that a native thread does not help.
    OLD = {
      "bcrypt" => [Gem::Version.new("3.1.18"), [:warning, HASHES, "update it to 3.1.18 or later"]]
    }.freeze
    # Gems whose thread state belongs to the thread, or is cured. (airbrake-ruby reports what others
    # keep there; dry-effects keeps log tags there only for ActiveSupport before 7.)
    THREAD_WISE = %w[
      activerecord activeresource activesupport airbrake-ruby async-http bundler capybara chewy
      concurrent-ruby curb debug dry-effects excon fiber-local httpx mongoid neverblock newrelic_rpm
      puma sentry-ruby timeout typhoeus
    ].freeze
    # Gems that keep state in fiber storage from this version on, which Ruby 3.2 brought.
    FIBER_WISE = { "bullet" => Gem::Version.new("8.3.1") }.freeze
    private_constant :OFFLOADED, :HASHES, :HASH_ELSEWHERE, :GEMS, :WELL, :OLD, :THREAD_WISE,
                     :FIBER_WISE

    check "bundle", applies: ->(project) { project.bundle.exist? } do |project|
      next if project.booted?

      why = project.bundle.complaint
      warning "the Gemfile cannot be read: #{why}", cure: "make `bundle lock` work" if why
      next if project.bundle.locked?

      warning "there is no lock file: doctor knows the gems that the Gemfile names, not their " \
              "versions, nor what they need", cure: "run `bundle lock` first"
    end

    check "gems", applies: ->(project) { project.gems.any? } do |project|
      project.gems.slice(*GEMS.keys).each do |name, version|
        next if version && WELL.key?(name) && Gem::Version.new(version) >= WELL[name]

        before, old = OLD[name]
        is_old = before && version && Gem::Version.new(version) < before
        level, what, cure = is_old ? old : GEMS.fetch(name)
        __send__(level, "#{[name, version].compact.join(" ")}: #{what}", cure: cure)
      end
    end

    # The cure gives connections of redis-client that are made inside a loop another driver.
    check "hiredis", applies: :sources?.to_proc do |project|
      cured = project.gems.key?("hiredis-client") && !project.gems.key?("hiredis")
      project.lines(/driver["']?:?\s*(?:=>?)?\s*[:"']hiredis\b/).each do |line|
        __send__(cured ? :warning : :problem,
                 "#{line}: all requests wait until Redis answers" \
                 "#{", on connections that are made before the loop runs" if cured}",
                 cure: "use driver: :ruby, or no driver option at all")
      end
    end

    check "drivers", applies: ->(project) { project.rails? || project.gems.any? } do |project|
      Doctor.drivers_of(project).each do |driver|
        next unless %w[off unsupported].include?(driver["state"].to_s)

        warning "#{driver["name"]} #{driver["version"]}: its cure is #{driver["state"]}, so in a " \
                "loop it may block other fibers or mix up what they share" \
                "#{" (#{driver["reason"]})" if driver["reason"]}",
                cure: "use a version that docs/TRANSPARENCY.md lists, and keep it out of NB_DRIVERS"
      end
    end

    check "thread variables",
          applies: ->(project) { project.sources? || project.gems.any? } do |project|
      project.source_files.flat_map { |file, name| ThreadState.lines(file, name) }.each do |line|
        problem "#{line}: all requests of a process share the data of a thread",
                cure: ThreadState.cure(line)
      end
      wise = THREAD_WISE + (RUBY_VERSION < "3.2" && !project.rails? ? [] : %w[i18n])
      project.gems.compact.except(*wise).each do |name, version|
        next if Doctor.fiber_wise?(name, version)

        found = ThreadState.in_gem(name, version) or next
        warning "#{name} #{version} keeps data in the thread: #{found}",
                cure: "check whether it belongs to a request; if so, use a later version or gem"
      end
    end

    # @return [Array<Hash{String => Object}>] the state of each cure: as the booted application
    #   says, or as the versions of its gems let expect
    # @api private
    def self.drivers_of(project)
      return project.facts.fetch("drivers", []) if project.booted?

      require_relative "../../../../neverblock"
      Drivers.status_with(project.gems).map { |status| status.to_h.transform_keys(&:to_s) }
    end

    # @return [Boolean] whether the thread state in its code is for older versions of Ruby
    # @api private
    def self.fiber_wise?(name, version)
      first = FIBER_WISE[name] or return false
      RUBY_VERSION >= "3.2" && Gem::Version.new(version) >= first
    end
  end
end
