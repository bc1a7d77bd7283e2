# frozen_string_literal: true

require "json"
require "open3"

module Apps
  # One application: doctor's opinion, and what a crowd sees under each server.
  class Trial
    def initialize(application)
      @application = application
      @workshop = Workshop.new(application)
      @store = Store.new(application, @workshop.folder)
      @results = {}
    end

    # @return [Hash] the findings of doctor, the number of pages, and the figures of each server
    def run
      say "is built"
      @workshop.prepare(@store)
      findings = doctor
      Serving::SERVERS.each_key { |server| @results[server] = try(server) }
      { "version" => @application.version, "ruby" => RUBY_VERSION, "doctor" => findings,
        "database" => @application.database.to_s, "pages" => @walk.pages.size,
        "steady" => @walk.steady.size, "servers" => @results }
    end

    # @return [Boolean] whether there was no fault under NeverBlock
    def green? = @results.dig("neverblock", "faults").empty?

    private

    # @return [Array<String>] doctor's findings, a line each
    def doctor
      output, = Open3.capture2e(@workshop.environment, "bundle", "exec", "nb", "doctor", "--json",
                                chdir: @workshop.variant("neverblock"))
      findings = JSON.parse(output[output.index("{")..]).fetch("findings")
      findings.map { |one| one.values_at("level", "what").join(": ") }.each { |line| say line }
    end

    def try(server)
      @store.restore
      serving = Serving.new(server, @workshop)
      @walk ||= walk(serving.port)
      visit(server, serving)
    ensure
      serving&.stop
    end

    def walk(port)
      Walk.new(@application, port).tap do |walk|
        say "has #{walk.pages.size} pages, #{walk.steady.size} of them the same each time; " \
            "status #{walk.pages.map(&:status).tally}"
        walk.restless.first(8).each { |path, difference| say "  #{path}: #{difference}" }
      end
    end

    def visit(server, serving)
      crowd = Crowd.new(@application, @walk, serving.port)
      crowd.enter
      before = serving.cpu
      elapsed = crowd.look
      figures = figures(crowd, elapsed, serving.cpu - before)
      writes = crowd.write
      faults = crowd.faults + strange(writes)
      crowd.close
      result = { **figures, "memory_mb" => serving.memory.round, "writes" => writes,
                 "faults" => faults.map(&:to_a) }
      tell(server, result)
    end

    def figures(crowd, elapsed, cpu)
      seconds = crowd.seconds.sort
      { "looks" => seconds.size, "rate" => (seconds.size / elapsed).round(1),
        "p50" => at(seconds, 0.5), "p99" => at(seconds, 0.99),
        "cpu_ms" => (cpu / [seconds.size, 1].max * 1000).round(1) }
    end

    def at(seconds, share) = seconds[(seconds.size * share).to_i]&.round(3)

    # The database must have all texts, each as that of the visitor whom it names.
    def strange(writes)
      return [] unless @application.written

      rows = @store.query(@application.written)
      rows = rows.select { |_, text| text.to_s.include?("wrote this") }
      crossed = rows.reject { |owner, text| text.include?(owner) }
      faults = crossed.map { |row| Crowd::Fault.new(:crossed, "database", row.join(": ")) }
      return faults if rows.size == writes

      faults << Crowd::Fault.new(:lost, "database", "#{rows.size} of #{writes} texts")
    end

    def tell(server, result)
      say "under #{server}: #{result.except("faults")}, #{result["faults"].size} faults"
      result["faults"].first(12).each { |fault| say "  #{fault.join(" ")}" }
      result
    end

    def say(text) = puts("#{@application.name} #{text}")
  end
end
