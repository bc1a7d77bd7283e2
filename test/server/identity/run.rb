# frozen_string_literal: true

# Many clients, each request with a token of its own, against a cluster that is restarted all the
# while: no byte of one may come to another.
#
#   rake soak:identity[600] or soak:tls[600]
#   ruby -Ilib -Itest test/server/identity/run.rb 600 [seed [clients [HUP,USR1,… [tls]]]]

require "fileutils"
require "json"
require "rbconfig"
require "tmpdir"
require_relative "../../support/clock"
require_relative "../../support/certificates"
require_relative "../../support/ports"
require_relative "clients"
require_relative "handshaker"

module ServerIdentity
  # `nb serve` in a folder of its own.
  class Cluster
    NB_PROGRAM = File.expand_path("../../../exe/nb", __dir__)
    SERVED = File.expand_path("served.rb", __dir__)
    FIRST = "z#{"f" * 14}z".freeze # the token of who looks whether it serves

    attr_reader :folder, :ports

    def initialize(upstream)
      @folder = Dir.mktmpdir("nb-identity")
      @ports = {plain: Ports.free, tls: Ports.free}
      File.write("#{@folder}/key.pem", Certificates::KEY.to_pem)
      File.write("#{@folder}/cert.pem", Certificates.certificate.to_pem)
      File.write("#{@folder}/nb.rb", config)
      File.write("#{@folder}/config.ru", <<~RUBY)
        require #{SERVED.inspect}
        IdentityServed.folder = #{@folder.inspect}
        IdentityServed.upstream_port = #{upstream}
        run IdentityServed.method(:call)
      RUBY
      start
    end

    def signal(name) = Process.kill(name, @pid)
    def read(name) = File.exist?("#{@folder}/#{name}") ? File.binread("#{@folder}/#{name}") : ""

    def workers = File.read("/proc/#{@pid}/task/#{@pid}/children").split

    # @return [Array(Integer, Integer)] most fds, and most MB, of a worker
    def held
      [workers.map { |pid| Dir.children("/proc/#{pid}/fd").size }.max,
       workers.map { |pid| File.read("/proc/#{pid}/statm").split[1].to_i * 4 / 1024 }.max]
    rescue Errno::ENOENT
      retry # one of them has just ended
    end

    # @return [Boolean] whether it ended by itself
    def stop
      signal(:TERM)
      ended = 400.times.any? { Process.wait(@pid, Process::WNOHANG) || !sleep(0.1) }
      Process.kill(:KILL, -@pid) unless ended
      ended
    end

    private

    def config
      <<~RUBY
        workers 2
        bind "tcp://127.0.0.1:#{@ports[:plain]}"
        bind "ssl://127.0.0.1:#{@ports[:tls]}?cert=#{@folder}/cert.pem&key=#{@folder}/key.pem"
        access_log "#{@folder}/access.log"
        request_timeout 2
        fibers 64
        cancel_when_gone true
        body_memory_bytes 4096
        bodies_memory_bytes 100_000
        drain_timeout 20
      RUBY
    end

    # Behind the clients, who would else be silent for longer than a server that ends waits.
    def start
      paths = $LOAD_PATH.map { |path| "-I#{path}" }
      @pid = spawn("nice", "-n", "5", RbConfig.ruby, *paths, NB_PROGRAM, "serve",
                   "-C", "#{@folder}/nb.rb", chdir: @folder, pgroup: true,
                   out: "#{@folder}/log", err: "#{@folder}/log")
      200.times { ready? ? break : sleep(0.1) }
    end

    def ready?
      TCPSocket.open("127.0.0.1", @ports[:plain]) do |io|
        io.write("GET /array/#{FIRST}/1?#{FIRST} HTTP/1.1\r\nHost: a\r\nX-Token: #{FIRST}\r\n" \
                 "Cookie: #{FIRST}\r\nX-Request-Id: #{FIRST}\r\nConnection: close\r\n\r\n")
        io.read.end_with?(FIRST) && workers.size == 2
      end
    rescue SystemCallError
      false
    end
  end

  # Answers each line with itself; a line is one token, and the only one of its connection.
  class Upstream
    attr_reader :port, :strange

    def initialize
      @server = TCPServer.new("127.0.0.1", 0)
      @port = @server.addr[1]
      @strange = []
    end

    def run
      loop do
        socket = Fiber.scheduler.idle { @server.accept }
        Fiber.schedule { serve(socket) }
      end
    end

    private

    def serve(socket)
      line = socket.gets
      socket.write(line)
      @strange << line unless line&.match?(/\Az\h{14}z\n\z/)
      @strange << socket.read(1) unless socket.eof?
    rescue SystemCallError
      nil # a request that was cancelled
    ensure
      socket.close
    end
  end

  # Runs all and judges.
  class Run
    include Clock

    # @param kind [Class] of the clients
    def initialize(seconds, seed, count, signals, kind) # rubocop:disable Metrics/ParameterLists
      @seconds = seconds
      @count = count
      @kinds = signals
      @kind = kind
      @random = Random.new(seed)
    end

    # @return [Boolean]
    def run
      @upstream = Upstream.new
      @cluster = Cluster.new(@upstream.port)
      @clients = Array.new(@count) do |number|
        @kind.new(number, @cluster.ports, Random.new(@random.rand(1 << 40)))
      end
      before = @cluster.held
      NB.run { load }
      @held = [before, *settled(before.first)]
      @stopped = @cluster.stop
      judge
    ensure
      FileUtils.rm_rf(@cluster.folder) if @cluster
    end

    private

    def load
      Fiber.schedule { @upstream.run }
      @end = clock + @seconds
      @signals = 0
      signals = Fiber.schedule { Fiber.scheduler.idle { disturb } }
      NB.group { |group| @clients.each { |client| group.async { client.one while goes_on? } } }
      signals
    end

    # Waits until the workers have no more fds than before, for a minute at most.
    # @return [Array<Array(Integer, Integer)>] what they held when the load ended, and at last
    def settled(fds)
      loaded = @cluster.held
      600.times { @cluster.held.first <= fds ? break : sleep(0.1) }
      [loaded, @cluster.held]
    end

    def goes_on? = clock < @end && @clients.sum { |client| client.failures.size } < 20

    # A replacement of the workers takes its time: some seconds between two.
    def disturb
      loop do
        sleep([@seconds / 4.0, 8].min)
        @cluster.signal(@kinds[@signals % @kinds.size])
        @signals += 1
        failures = @clients.flat_map(&:failures)
        puts "#{sum(:answered)} answers, #{failures.size} failures, #{@cluster.held.last} MB",
             failures.first(10)
        $stdout.flush
      end
    end

    def total(counts) = counts.reduce { |a, b| a.merge(b) { |_, x, y| x + y } }
    def excuses = total(@clients.map(&:excuses))
    def handshakes = total(@clients.map(&:handshakes))
    def sum(what) = @clients.sum { |client| client.public_send(what) }

    # Each line names one token, in its target and as its request id.
    def strange_lines
      @cluster.read("access.log").each_line.count do |line|
        line.scan(/z\h{14}z/).uniq.size != 1 || !line.end_with?("\n")
      end
    end

    # What the application raised on purpose has its own request's token beside it.
    # @return [Array<Array(String, String)>]
    def errors = @cluster.read("log").scan(%r{ /\w+/(z\h{14}z)/\d+ .*?(z\h{14}z)$})

    # So many answers, and no line that could have been strange.
    MANY = 5_000

    # @return [Array<String>] which of the logs were not written
    def unwritten
      {"access log" => @cluster.read("access.log").lines.size, "log" => errors.size}
        .select { |_, lines| lines.zero? && sum(:answered) > MANY }.keys
    end

    def judge
      failures = @clients.flat_map(&:failures)
      lost = sum(:asked) - sum(:answered) - sum(:excused)
      strange = {"in the application" => @cluster.read("strange").lines.size,
                 "upstream" => @upstream.strange.size,
                 "in the access log" => strange_lines,
                 "in the log" => errors.count { |asked, raised| asked != raised }}
      puts @cluster.read("strange").lines.first(5), failures.first(10)
      puts "#{sum(:asked)} requests of #{@count} clients, #{@signals} signals: #{sum(:answered)} " \
           "answered, #{excuses} not, as documented, #{lost} lost; strange: #{strange}; " \
           "#{@cluster.read("access.log").lines.size} lines in the access log, " \
           "#{errors.size} errors in the log"
      left = @held.last.first > @held.first.first
      puts "handshakes: #{handshakes}" if @kind == Handshaker
      puts "a worker's fds, and MB: #{@held.map { |held| held.join(", ") }.join("; ")} at last"
      puts "not written: #{unwritten.join(", ")}" if unwritten.any?
      failed = failures.size + strange.values.sum + unwritten.size +
               [!@stopped, !lost.zero?, left].count(true)
      puts "#{failed} faults", @cluster.read("log").lines.grep(/worker|BUG|FATAL|\.[ch]:/).last(20)
      failed.zero? && sum(:answered).positive?
    end
  end
end

seconds = Float(ARGV[0] || 600)
seed = Integer(ARGV[1] || (Random.new_seed % 1_000_000))
count = Integer(ARGV[2] || 500)
puts "identity soak: #{seconds.round} s, seed #{seed}, Ruby #{RUBY_VERSION}"
signals = (ARGV[3] || "USR1,HUP,USR2,HUP").split(",").map(&:to_sym)
kind = ARGV[4] == "tls" ? ServerIdentity::Handshaker : ServerIdentity::Client
exit ServerIdentity::Run.new(seconds, seed, count, signals, kind).run
