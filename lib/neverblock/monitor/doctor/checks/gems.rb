# frozen_string_literal: true

module NB
  # Gems that stop the loop, or keep what belongs to a request in the thread.
  class Doctor
    OFFLOAD = "NB.offload { … } around its calls"
    # Gem => [level, what it does, cure]. What is cured by itself is not here: NB::Drivers.status;
    # what was measured with each: docs/TRANSPARENCY.md.
    GEMS = {
      "hiredis-client" => [:problem, "everything stands still while Redis thinks: it reads and " \
        "writes in C", "take it out of the Gemfile: redis-client's own driver waits"],
      "hiredis" => [:problem, "everything stands still while Redis thinks: it waits in C",
        "take it out: redis 5 and redis-client bring a driver that waits"],
      "typhoeus" => [:warning, "libcurl's own wait stops the loop",
        "httpx, http or Net::HTTP, which wait; or #{OFFLOAD}"],
      "patron" => [:warning, "libcurl's own wait stops the loop",
        "httpx, http or Net::HTTP, which wait; or #{OFFLOAD}"],
      "grpc" => [:warning, "a call waits in C without asking the loop", OFFLOAD],
      "rdkafka" => [:warning, "`poll` waits in C without asking the loop",
        "poll in a thread and hand messages over by a Thread::Queue"],
      "sqlite3" => [:note, "a query holds the process until it is done",
        "short queries are well; for slow ones take a database behind a socket"],
      "excon" => [:note, "the socket of a persistent connection belongs to the thread, so that " \
        "fibers would share it", "no `persistent: true` where several requests use it"]
    }.freeze
    # These keep in the thread what belongs there, or are cured.
    THREAD_WISE = %w[activerecord concurrent-ruby curb httpx puma timeout typhoeus].freeze
    private_constant :OFFLOAD, :GEMS, :THREAD_WISE

    check "gems" do |project|
      cured = project.drivers.select { |driver| ["on", "not loaded"].include?(driver["state"]) }
      (GEMS.keys & project.gems.keys - cured.map { |driver| driver["name"] }).each do |name|
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
      project.drivers.each do |driver|
        next unless %w[off unsupported].include?(driver["state"])

        warning "#{driver["name"]} #{driver["version"]} blocks: its cure is #{driver["state"]}" \
                "#{" (#{driver["reason"]})" if driver["reason"]}",
                cure: "a version that docs/TRANSPARENCY.md lists, without NB_DRIVERS against it"
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
