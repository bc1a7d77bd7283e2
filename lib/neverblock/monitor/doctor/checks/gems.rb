# frozen_string_literal: true

module NB
  # Gems that stop the loop, or keep what belongs to a request in the thread.
  class Doctor
    OFFLOADED = "its calls wait in a limited number of native threads, not in the loop"
    # Gem => [level, what it does, cure], with the cures of NB::Drivers on; what was measured with
    # each is in docs/TRANSPARENCY.md.
    GEMS = {
      "hiredis" => [:problem, "it waits in C, so everything stands still while Redis thinks",
        "remove it: redis 5 and redis-client bring a driver that waits"],
      "hiredis-client" => [:warning, "waits in C on connections that are made before the loop runs",
        "remove it: redis-client's own driver waits"],
      "rdkafka" => [:warning, "`poll` waits in C without asking the loop",
        "poll in a thread and pass messages through a Thread::Queue"],
      "typhoeus" => [:note, OFFLOADED, "httpx, http or Net::HTTP wait in the loop itself"],
      "patron" => [:note, OFFLOADED, "httpx, http or Net::HTTP wait in the loop itself"],
      "grpc" => [:note, OFFLOADED, "fine, unless hundreds of calls run at a time"],
      "sqlite3" => [:note, "a query blocks the process until it is done",
        "short queries are fine; for slow ones use a database behind a socket"]
    }.freeze
    # These keep in the thread what belongs there, or are cured.
    THREAD_WISE = %w[
      activerecord concurrent-ruby curb httpx neverblock puma sentry-ruby timeout
      typhoeus
    ].freeze
    private_constant :OFFLOADED, :GEMS, :THREAD_WISE

    check "gems" do |project|
      project.gems.slice(*GEMS.keys).each_key do |name|
        level, what, cure = GEMS.fetch(name)
        __send__(level, "#{name} #{project.gems[name]}: #{what}", cure: cure)
      end
    end

    check "hiredis" do |project|
      project.lines(/driver:?\s*(=>)?\s*:hiredis/).each do |line|
        problem "#{line}: everything stands still while Redis thinks",
                cure: "use driver: :ruby, or no driver option at all"
      end
    end

    check "drivers" do |project|
      project.facts.fetch("drivers", []).each do |driver|
        next unless %w[off unsupported].include?(driver["state"])

        warning "#{driver["name"]} #{driver["version"]} blocks: its cure is #{driver["state"]}" \
                "#{" (#{driver["reason"]})" if driver["reason"]}",
                cure: "use a version that docs/TRANSPARENCY.md lists, and keep it out of NB_DRIVERS"
      end
    end

    check "thread variables" do |project|
      pattern = /thread_variable_(get|set)\b/
      project.lines(pattern).each do |line|
        problem "#{line}: all requests of a process share thread variables",
                cure: "use Thread.current[:name], which is the fiber's own, or CurrentAttributes"
      end
      wise = THREAD_WISE + (RUBY_VERSION < "3.2" && !project.rails? ? [] : %w[i18n])
      project.gems.except(*wise).each do |name, version|
        found = Doctor.in_gem(name, version, pattern) or next
        warning "#{name} #{version} keeps data in the thread: #{found}",
                cure: "check whether it belongs to a request; if so, use a later version or gem"
      end
    end

    # @return [String, nil] the first line of a gem's code that matches
    # @api private
    def self.in_gem(name, version, pattern)
      root = Gem::Specification.find_by_name(name, version).full_gem_path
      Dir[File.join(root, "lib/**/*.rb")].sort.each do |file|
        line = Project.grep(file, pattern, file.delete_prefix("#{root}/")).first
        return line if line
      end
      nil
    rescue Gem::MissingSpecError
      nil # locked for another machine
    end
  end
end
