# frozen_string_literal: true

require "fileutils"
require "rbconfig"
require "tmpdir"
require "neverblock/server/signals"
require_relative "../../support/clock"
require_relative "../../support/certificates"
require_relative "clients"
require_relative "script"

module StopMatrix
  # Runs `nb serve` as a script says, with clients that ask all the time, and looks what was lost.
  # Nothing may be, but for what docs/SERVER.md says.
  class Round
    include Clock

    NB_PROGRAM = File.expand_path("../../../exe/nb", __dir__)
    ENDING = %w[TERM INT QUIT].freeze
    # Of each kind of client.
    CLIENTS = 3
    CROWD = 20
    # Seconds: until the program ends, and until it serves.
    LIMIT = 60
    # Seconds until a signal that Ruby lost comes again.
    PATIENCE_WITH_RUBY = 30
    # What is to end at once may take so long.
    AT_ONCE = 6
    # A step that was taken; whether the program was ours before and after it.
    Sent = Struct.new(:at, :step, :ours) do
      def master? = %i[master group].include?(step.target)
      def ending? = master? && ENDING.include?(step.signal)
    end
    # A frame of ours in a backtrace.
    OURS = %r{lib/neverblock/.*:in }

    class << self
      # @return [Integer] another for each call
      def next_number
        @number = (@number || Process.pid * 97) + 1
      end
    end

    # @return [Array<String>] what is wrong; empty: nothing
    attr_reader :faults
    # @return [Integer]
    attr_reader :answered

    def initialize(script)
      @script = script
      @faults = []
      @sent = []
      @known = []
    end

    # @return [self]
    def run
      Dir.mktmpdir("nb-stop") do |folder|
        @folder = folder
        prepare
        start
        @script.steps.each { |step| take(step) }
        await_end
        judge
      ensure
        clean_up
      end
      self
    end

    def to_s = [@script, *@faults.uniq.first(10), *excerpt].join("\n  ")

    private

    def excerpt
      lines = @log.to_s.lines(chomp: true)
      lines.size > 24 ? lines.first(8) + lines.last(16) : lines
    end

    def prepare
      File.write("#{@folder}/nb.rb", @script.config)
      File.write("#{@folder}/config.ru", <<~RUBY)
        sleep #{@script.loads}
        run lambda { |env|
          path = env["PATH_INFO"]
          turn = path[/\\d+\\z/].to_i % 4
          turn.zero? ? compute : sleep(turn * 0.01)
          [200, {"content-type" => "text/plain"}, ["\#{path} \#{Process.pid}"]]
        }
        # Others come into the accept queue meanwhile.
        def compute = now.then { |start| nil until now > start + 0.02 }
        def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
      RUBY
      File.write("#{@folder}/key", Certificates::KEY.to_pem)
      File.write("#{@folder}/cert", Certificates.certificate.to_pem)
    end

    def start
      place = @script.kind == :unix ? "#{@folder}/sock" : free_port
      @address = [@script.kind, place]
      @clients = Array.new(2 * CLIENTS) { |i| Client.new(i, @address, keep: i.even?) }
      @threads = @clients.map { |client| Thread.new { client.run } }
      @started = clock
      @pid = spawn(RbConfig.ruby, *$LOAD_PATH.map { |path| "-I#{path}" }, NB_PROGRAM, "serve",
                   "-C", "#{@folder}/nb.rb", "-b", address(place), chdir: @folder,
                   out: "#{@folder}/log", err: %i[child out], pgroup: true)
      return sleep(@script.begins) if @script.begins

      wait("it does not serve") { @clients.any?(&:first) || gone? }
    end

    # Below those that the kernel gives, and each for one round: clients of one that has ended ask
    # on for a while.
    def free_port
      port = 20_000 + Round.next_number % 12_000
      TCPServer.open("127.0.0.1", port, &:close)
      port
    rescue Errno::EADDRINUSE
      retry
    end

    def address(place)
      {unix: "unix://#{place}", tcp: "tcp://127.0.0.1:#{place}",
       tls: "ssl://127.0.0.1:#{place}?cert=#{@folder}/cert&key=#{@folder}/key"}[@script.kind]
    end

    def wait(complaint, limit = LIMIT)
      give_up = clock + limit
      until (value = yield)
        return (@faults << "#{complaint} in #{limit} s") && nil if clock > give_up

        sleep 0.005
      end
      value
    end

    def gone?
      @status ||= Process.wait2(@pid, Process::WNOHANG)&.last
    end

    def children
      File.read("/proc/#{@pid}/task/#{@pid}/children").split.map { |pid| Integer(pid) }
    rescue SystemCallError
      []
    end

    def newborn
      @known |= children
      until_then = clock + 1.5
      sleep 0.0002 until (pid = (children - @known).first) || clock > until_then || gone?
      pid
    end

    def take(step)
      pid = receiver(step.target)
      return if pid.nil? || gone?

      crowd if @clients.any?(&:first)
      @sent << Sent.new(clock, step)
      ours = ours?
      Process.kill(step.signal, pid)
      @sent.last.ours = ours && ours?
      # These stop a program that is no Ruby yet.
      Process.kill("CONT", pid) if step.signal.start_with?("TT")
      sleep step.pause
    rescue Errno::ESRCH
      nil # it has ended in this moment
    end

    # Many come at once, behind one that computes: the signal finds them in the accept queue.
    def crowd
      clients = Array.new(CROWD) { |i| Client.new("c#{i}", @address, keep: false) }
      @clients += clients
      @threads += clients.each_with_index.map do |client, i|
        Thread.new { client.once("/crowd/#{i.zero? ? 0 : 1}") }
      end
      sleep 0.005
    end

    # Whether the program that runs as the master is ours: Ruby has begun our first line. It begins
    # anew after USR2.
    def ours? = NB::Server::Signals.caught_by?(@pid)

    def receiver(target)
      case target
      when :master then @pid
      when :group then -@pid
      when :worker then children.sample(random: Random.new(@script.seed))
      else newborn
      end
    end

    def await_end
      give_again = clock + PATIENCE_WITH_RUBY
      wait("hangs") { gone? || (clock > give_again && repeat_what_ruby_lost && nil) }
      wait("leaves processes behind") { alone? }
      @clients.each(&:over!)
      @threads.each { |thread| thread.join(2 * Client::PATIENCE) || @faults << "a client hangs" }
      @log = File.read("#{@folder}/log")
    end

    # While Ruby loads its encodings it drops the exception of a signal, of the last ones without a
    # trace: of those that come before our first line, one in some hundred.
    def repeat_what_ruby_lost
      lost = @sent.reverse.find { |sent| sent.ending? && !sent.ours }
      return if @repeated || lost.nil?

      @repeated = true
      warn "#{@script}: Ruby lost #{lost.step.signal} while it began, sent again"
      Process.kill(lost.step.signal, @pid)
    rescue Errno::ESRCH
      nil
    end

    # Whether no process of its group is left.
    def alone?
      Process.kill(0, -@pid) && false
    rescue Errno::ESRCH
      true
    end

    def clean_up
      Process.kill("KILL", -@pid)
    rescue Errno::ESRCH
      nil
    ensure
      @threads&.each(&:kill)
    end

    def judge
      @answered = @clients.sum(&:answered)
      judge_status
      judge_clients
      @faults << "a backtrace in the log" if @log.match?(OURS)
    end

    # Until our first line runs, Ruby itself takes the signals, and ends by them or with 1.
    def judge_status
      return if @status.nil? || @status.success? || @sent.any? { |sent| taken_by_ruby?(sent) }

      @faults << "ended with #{@status}"
    end

    def taken_by_ruby?(sent)
      sent.master? && !sent.ours &&
        (@status.exitstatus == 1 || @status.termsig == Signal.list.fetch(sent.step.signal))
    end

    def judge_clients
      first = @clients.filter_map(&:first).min || Float::INFINITY
      over = the_end
      refused = @clients.flat_map(&:refused).select { |at| at > first && at < over }
      @faults << "refused #{refused.size} times while it served" if refused.any?
      @clients.flat_map(&:lost).each do |event|
        @faults << "#{event.what}, #{(event.at - over).round(3)} s after the end began" unless
          expected?(event, first)
      end
    end

    # When the first signal came that means the end.
    def the_end = @sent.find(&:ending?)&.at

    # Who waits at a program that loads ends with it; so does what runs when it is to end at once.
    def expected?(event, first)
      return true if the_end && the_end < first

      at_once = @sent.select { |sent| sent.step.signal == "QUIT" }
      at_once += @sent.select(&:ending?).drop(1).first(1)
      at_once.any? { |sent| event.at.between?(sent.at - Client::PATIENCE, sent.at + AT_ONCE) }
    end
  end
end
