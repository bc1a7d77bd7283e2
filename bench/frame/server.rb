# frozen_string_literal: true

require "tempfile"
require_relative "listening"

module Bench
  # A server that cells talk to, in a process of its own: started once for a table, stopped after.
  class Server
    # Seconds to wait for a server to listen.
    PATIENCE = 15

    # @return [Integer]
    attr_reader :port

    # @param kind [Symbol] :delayd (answers after a while), one of {Database::KINDS}, or a program
    #   of bench/rivals/
    # @param ruby [RubyTarget] what runs `nb delayd`: the extension is compiled for it
    # @param delayd [Array<String>, nil] another delay server; gets `--port N` added
    # @return [Server]
    def self.start(kind, ruby:, delayd: nil)
      return Database.new(kind) if Database::KINDS.include?(kind)
      return new([Compiled.program(kind.to_s), "server"]) unless kind == :delayd

      free = Listening.free_port
      command = delayd || [*ruby.command, File.join(ROOT, "exe", "nb"), "delayd"]
      new([*command, "--port", free.to_s], port: free)
    end

    # @param command [Array<String>]
    # @param port [Integer, nil] where it will listen; nil: it prints it on its first line
    # @raise [Bench::Error] when it does not come up
    def initialize(command, port: nil)
      @command = command
      input, @stop = IO.pipe
      output, writer = IO.pipe
      errors = Tempfile.new("bench-server")
      @pid = Process.spawn(RubyTarget::CLEAN, *command, in: input, out: writer, err: errors.path,
                                                        pgroup: true)
      [input, writer].each(&:close)
      @errors = errors
      @port = port || Integer(output.gets)
      wait_until_it_listens
    rescue SystemCallError, TypeError, ArgumentError => error
      raise Error, "#{command.join(" ")} does not start: #{error.message}"
    end

    # @return [void]
    def stop
      @stop.close
      Process.kill(:TERM, @pid)
      Process.wait(@pid)
    rescue Errno::ESRCH, Errno::ECHILD
      nil
    end

    private

    def wait_until_it_listens
      Listening.wait(@pid, PATIENCE) { Listening.at?(port) }
    rescue RuntimeError => error
      stop
      reason = File.read(@errors.path).lines.first.to_s.strip
      raise Error, "#{@command.join(" ")} #{error.message}: #{reason}"
    end
  end
end
