# frozen_string_literal: true

require "json"
require "tempfile"

module Bench
  # Runs one cell in a process of its own and reads its one line of JSON.
  class Launcher
    # The C program that is a server workload's clients.
    CLIENTS = { "tcp_echo_external" => "c_echo", "http_server_external" => "c_http",
                "rails" => "c_mix" }.freeze
    private_constant :CLIENTS

    # @param ruby [RubyTarget]
    # @param ports [Hash{Symbol => Integer}] of the servers that run
    # @param homes [Hash{String => GemHome}] by runtime
    def initialize(ruby, ports: {}, homes: {})
      @ruby = ruby
      @ports = ports
      @homes = homes
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
      return unless @pid

      Process.kill(:KILL, -@pid)
      Process.wait(@pid)
    rescue Errno::ESRCH, Errno::ECHILD
      nil
    ensure
      @pid = nil
    end

    private

    def prepare(table, params, seconds)
      runtime = Bench.runtimes.fetch(params.fetch(:runtime, "blocking"))
      workload = params.fetch(:workload, table.workload)
      port = @ports[table.servers.first]
      all = table.base.merge(params, port ? { port: port } : {})
      if runtime.programs
        program = Compiled.program(runtime.programs.fetch(workload))
        return [[program, *program_arguments(workload, all, seconds)].map(&:to_s), {}]
      end

      order = { workload: workload, runtime: runtime.id, seconds: seconds,
                params: child_params(workload, all), gems: gems(runtime) }
      [[*@ruby.command, "-I#{File.join(ROOT, "lib")}", File.join(HOME, "child.rb"),
        JSON.generate(order)], environment(runtime)]
    end

    def child_params(workload, params)
      params = params.reject { |name, _| %i[runtime workload].include?(name) }
      clients = CLIENTS[workload]
      clients ? params.merge(program: Compiled.program(clients)) : params
    end

    # The modes of bench/rivals/c_loop.h.
    def program_arguments(workload, params, seconds)
      clients = params.fetch(:clients, 20)
      busy = params.fetch(:busy, 100)
      case workload
      when *CLIENTS.keys then ["apart", clients, seconds]
      when "wakes" then ["wakes", params[:port], params[:sockets], busy, seconds]
      else ["both", clients, params.fetch(:messages, 200), seconds]
      end
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
        next failure("no result within #{patience} s").tap { stop } unless text

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

    def complaint(status, errors)
      how = status.signaled? ? "killed by signal #{status.termsig}" : "exit #{status.exitstatus}"
      first = errors.lines.grep_v(/warning:/).first.to_s.strip
      "#{how}: #{first.sub("#{ROOT}/", "")[0, 300]}"
    end

    def failure(text)
      { "failure" => text, "errors" => 1, "metrics" => {}, "notes" => [] }
    end

    def clock = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  end
end
