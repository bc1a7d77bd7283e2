# frozen_string_literal: true

require "json"
require "tempfile"

module Bench
  # Runs one cell in a process of its own and reads its one line of JSON.
  class Launcher
    # @param ruby [RubyTarget]
    # @param ports [Hash{Symbol => Integer}] of the servers that run
    # @param homes [Hash{String => GemHome}] by runtime
    # @param base [Hash] parameters instead of those that the table gives to all cells
    def initialize(ruby, ports: {}, homes: {}, base: {})
      @ruby = ruby
      @ports = ports
      @homes = homes
      @base = base
    end

    # @param table [Table]
    # @param params [Hash] of the cell
    # @param seconds [Float] how long the sample lasts at least
    # @return [Hash] the cell's line, or "failure" with the reason
    def call(table, params, seconds)
      started = clock
      command, environment = prepare(table, params, seconds)
      answer = execute(command, environment, table.patience)
      answer.merge("wall" => (clock - started).round(3))
    end

    # Ends a running cell and all it started. Called when the user interrupts.
    #
    # @return [void]
    def stop
      Command.end_group(@pid) if @pid
    ensure
      @pid = nil
    end

    private

    def prepare(table, params, seconds)
      runtime = Bench.runtimes.fetch(table.runtime_of(params))
      all = table.base.merge(@base, params, ports(table))
      order = { workload: params.fetch(:workload, table.workload), runtime: runtime.id,
                file: runtime.file, seconds: seconds, params: all.except(:runtime, :workload),
                gems: gems(runtime) }
      [[*@ruby.command, "-I#{File.join(ROOT, "lib")}", File.join(HOME, "child.rb"),
        JSON.generate(order)], environment(runtime)]
    end

    # A table of one server knows its port; one of several knows them by their names.
    def ports(table)
      return { ports: @ports.slice(*table.servers) } if table.servers.size > 1

      { port: @ports[table.servers.first] }.compact
    end

    def gems(runtime)
      @homes[runtime.id]&.gems || {}
    end

    def environment(runtime)
      RubyTarget::CLEAN.merge(@homes[runtime.id]&.environment || {}).merge(runtime.environment)
    end

    def execute(command, environment, patience)
      Tempfile.create("bench-cell") do |errors|
        text = start(command, environment, errors.path) { |output| read(output, patience) }
        next late(patience, File.read(errors.path)).tap { stop } unless text

        status = Process.wait2(@pid).last
        @pid = nil
        parse(text, status, File.read(errors.path))
      end
    end

    # In a process group of its own, so that {#stop} reaches what the cell has started.
    def start(command, environment, errors)
      output, writer = IO.pipe
      # An interrupt between the start and the assignment would leave a process nobody knows.
      Thread.handle_interrupt(Interrupt => :never) do
        @pid = Process.spawn(environment, *command, in: File::NULL, out: writer, err: errors,
                                                    pgroup: true)
      end
      writer.close
      yield output
    ensure
      writer&.close
      output&.close
    end

    # @return [String, nil] all of the output, nil when time is over
    def read(output, patience)
      deadline = clock + patience
      text = +""
      loop do
        rest = deadline - clock
        return unless rest.positive? && output.wait_readable(rest)

        text << output.readpartial(65_536)
      end
    rescue EOFError
      text
    end

    def parse(text, status, errors)
      line = text.lines.last
      return JSON.parse(line) if line && status.success?

      failure(complaint(status, errors))
    rescue JSON::ParserError
      failure("the last line is no JSON: #{line.strip[0, 200]}")
    end

    def late(patience, errors)
      failure(["no result within #{patience} s", first_line(errors)].compact.join(": "))
    end

    def complaint(status, errors)
      how = status.signaled? ? "killed by signal #{status.termsig}" : "exit #{status.exitstatus}"
      "#{how}: #{first_line(errors)}"
    end

    # @return [String, nil]
    def first_line(errors)
      line = errors.lines.grep_v(/warning:/).first
      line&.strip&.sub("#{ROOT}/", "")&.slice(0, 300)
    end

    def failure(text)
      { "failure" => text, "errors" => 1, "metrics" => {}, "notes" => [] }
    end

    def clock = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  end
end
