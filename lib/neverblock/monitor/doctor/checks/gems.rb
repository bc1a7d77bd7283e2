# frozen_string_literal: true

module NB
  # Gems that stop the loop, or keep what belongs to a request in the thread.
  class Doctor
    OFFLOADED = "its calls wait in native threads, of which there are some, not in the loop"
    # Gem => [level, what it does, cure], with the cures of NB::Drivers on; what was measured with
    # each is in docs/TRANSPARENCY.md.
    GEMS = {
      "hiredis" => [:problem, "everything stands still while Redis thinks: it waits in C",
        "take it out: redis 5 and redis-client bring a driver that waits"],
      "hiredis-client" => [:warning, "waits in C on connections that are made before the loop runs",
        "take it out: redis-client's own driver waits"],
      "rdkafka" => [:warning, "`poll` waits in C without asking the loop",
        "poll in a thread and hand messages over by a Thread::Queue"],
      "typhoeus" => [:note, OFFLOADED, "httpx, http or Net::HTTP wait in the loop itself"],
      "patron" => [:note, OFFLOADED, "httpx, http or Net::HTTP wait in the loop itself"],
      "grpc" => [:note, OFFLOADED, "well, unless hundreds of calls run at a time"],
      "sqlite3" => [:note, "a query holds the process until it is done",
        "short queries are well; for slow ones take a database behind a socket"]
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
                cure: "driver: :ruby, or no driver at all"
      end
    end

    check "drivers" do |project|
      project.facts.fetch("drivers", []).each do |driver|
        next unless %w[off unsupported].include?(driver["state"])

        warning "#{driver["name"]} #{driver["version"]} blocks: its cure is #{driver["state"]}" \
                "#{" (#{driver["reason"]})" if driver["reason"]}",
                cure: "a version that docs/TRANSPARENCY.md lists, and no NB_DRIVERS against it"
      end
    end

    check "thread variables" do |project|
      pattern = /thread_variable_(get|set)\b/
      project.lines(pattern).each do |line|
        problem "#{line}: all requests of a process share a thread's variables here",
                cure: "Thread.current[:name] is the fiber's own; in Rails, CurrentAttributes"
      end
      wise = THREAD_WISE + (RUBY_VERSION < "3.2" && !project.rails? ? [] : %w[i18n])
      project.gems.except(*wise).each do |name, version|
        found = Doctor.in_gem(name, version, pattern) or next
        warning "#{name} #{version} keeps something in the thread: #{found}",
                cure: "see whether it belongs to a request: if so, a later version, or another gem"
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
