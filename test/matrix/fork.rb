# frozen_string_literal: true

# rubocop:disable Layout/LineLength -- a wait or a state each, better on one line

# Forks while fibers wait in every way, lets the child end or go on in every way, and looks at three
# things: the parent's waits are what they were and end with what they waited for, its peers have
# heard nothing, and the child has none of its timers, watches, fibers, threads and fds.
#
#   ruby -Ilib test/matrix/fork.rb PLACE [ENDING ...]
COUNT_FDS = "exit $(ls /proc/self/fd | wc -l)"
system("sh", "-c", COUNT_FDS)
INHERITED = $?.exitstatus

require "neverblock"
require "socket"
require "tempfile"
require "timeout"

# One run of the matrix, in the place where the loop runs.
class ForkMatrix
  # From Ruby 4.0 on a forked child has no scheduler, until it runs a loop of its own.
  IN_LOOP = ->(work) { Fiber.current_scheduler ? work.call : NB.run(&work) }
  ENDINGS = {
    exit!: -> { exit!(0) },
    exit: -> { exit(0) },
    exec: -> { exec("sh", "-c", COUNT_FDS.sub(/(\$.*\))/, "$((\\1 - #{INHERITED}))")) },
    sleep: -> { sleep(0.06) },
    gc: -> { IN_LOOP.(-> { 3.times { 50.times { NB.async { sleep 0.001 } } && sleep(0.002) && GC.start } }) },
    new_loop: -> { Thread.new { NB.run { sleep 0.03 } }.value },
    in_process: -> { NB.in_process { 40 + 2 } == 42 || raise("wrong") },
    offload: -> { NB.offload { 42 } == 42 || raise("wrong") },
    timeout: -> { (Timeout.timeout(0.02) { sleep } rescue Timeout::Error) },
    raise: -> { raise SystemExit }
  }.freeze
  # What a loop has in the kernel, and Ruby of its own, is not an object of Ruby's.
  OWN = { "anon_inode:[eventpoll]" => 1, "anon_inode:[eventfd]" => 1 }.freeze

  def self.foreign_fds
    known = ObjectSpace.each_object(IO).filter_map { |io| io.fileno unless io.closed? }
    (Dir.children("/proc/self/fd").map(&:to_i) - known)
      .filter_map { |fd| File.readlink("/proc/self/fd/#{fd}") rescue nil }
      .reject { |link| link.start_with?("/proc/", "/dev/") }.map { |link| link.sub(/:\[\d+\]/, "") }
      .tally
  end
  AT_FIRST = foreign_fds

  def initialize
    @waits = {}
    @release = []
    @peers = []
    open_waits
  end

  # @return [Hash{Symbol => String}] what was wrong, by ending
  def run(endings)
    sleep 0.02 # all wait
    wrong = endings.to_h { |name| [name, attempt(ENDINGS.fetch(name))] }
    wrong[:afterwards] = afterwards
    wrong.compact
  end

  private

  def wait(name, expected, &block)
    @waits[name] = [NB.async(&block), expected]
  end

  def open_waits
    open_timers
    open_sockets
    open_locks
    open_others
  end

  def open_timers
    @gate = Thread::Queue.new
    wait(:sleep, true) { sleep(0.4) && true }
    wait(:timeout, Timeout::Error) { Timeout.timeout(0.3) { sleep } rescue $!.class }
    wait(:long_timeout, :gate) { Timeout.timeout(60) { @gate.pop } }
    wait(:popped, :gate) { @gate.pop }
    2.times { @release << -> { @gate << :gate } }
  end

  def open_sockets
    (near, far), (full, other), (chosen, chooser) = Array.new(3) { UNIXSocket.pair }
    wait(:read, "read") { near.read(4) }
    wait(:select, 1) { IO.select([chosen], nil, nil, 60).first.size }
    sent = "x" * 1_000_000
    wait(:write, sent.size) { full.write(sent) }
    @release << -> { far.write("read") } << -> { chooser.write("x") } << -> { other.read(sent.size) == sent || raise }
    @peers << far << chooser
    server = TCPServer.new("127.0.0.1", 0)
    wait(:accept, "accepted") { server.accept.read(8) }
    @release << -> { TCPSocket.new("127.0.0.1", server.addr[1]).write("accepted") }
  end

  def open_locks
    @mutex, changed, file = Thread::Mutex.new, Thread::ConditionVariable.new, Tempfile.new
    unlock = Thread::Queue.new
    wait(:holds, :unlock) { @mutex.synchronize { unlock.pop } }
    wait(:mutex, :locked) { @mutex.synchronize { :locked } }
    other = Thread::Mutex.new
    wait(:condition, :woken) { other.synchronize { changed.wait(other) && :woken } }
    file.flock(File::LOCK_EX)
    wait(:flock, 0) { File.open(file.path) { |again| again.flock(File::LOCK_EX) } }
    @release << -> { unlock << :unlock } << -> { changed.signal } << -> { file.flock(File::LOCK_UN) }
  end

  def open_others
    gate, pipe = Thread::Queue.new, IO.pipe
    child = spawn("read line; exit 5", in: pipe.first)
    wait(:child, 5) { Process.wait2(child).last.exitstatus }
    wait(:offload, :done) { NB.offload { gate.pop } }
    wait(:thread, :done) { Thread.new { gate.pop }.value }
    wait(:await, :told) { NB.await { |resume| @release << -> { resume.call(:told) } } }
    wait(:name, true) { Addrinfo.getaddrinfo("localhost", 80, nil, :STREAM).any? }
    2.times { @release << -> { gate << :done } }
    @release << -> { pipe.last.puts }
  end

  def attempt(ending)
    told, tell = IO.pipe
    pid = fork { told.close; live(tell, ending) }
    tell.close
    words = told.read
    status = Process.wait2(pid).last
    told.close
    return "the child has #{words}" unless words == "nothing"
    return "the child ended with #{status.inspect}" unless status.success?

    early = @peers.find { |peer| peer.read_nonblock(1, exception: false) != :wait_readable }
    early && "a peer has heard something"
  end

  def live(tell, ending)
    tell.write(inherited)
    tell.close
    ending.call
    exit!(0) unless [ENDINGS[:exit], ENDINGS[:raise]].include?(ending)
  rescue StandardError => error
    warn error.full_message
    exit!(1)
  end

  def inherited
    counts = NB.stats&.slice(:timers, :watches, :parked, :ready)&.reject { |_, count| count.zero? } || {}
    threads = Thread.list.size - 1
    fds = self.class.foreign_fds.reject { |kind, count| count <= AT_FIRST.fetch(kind, 0) + OWN.fetch(kind, 0) }
    found = [counts, ({threads: threads} if threads.positive?), fds].compact.reject(&:empty?)
    found.empty? ? "nothing" : found.inspect
  end

  def afterwards
    @release.each(&:call)
    wrong = @waits.filter_map do |name, (task, expected)|
      value = Timeout.timeout(60) { task.value } rescue $!.class
      "#{name}: #{value.inspect[0, 60]}" unless value == expected
    end
    wrong.join(", ") unless wrong.empty?
  end

  # Where the loop is.
  PLACES = {
    "run" => ->(&block) { NB.run { block.call } },
    "thread" => ->(&block) { Thread.new { NB.run { block.call } }.value },
    "guest" => lambda do |&block|
      require "neverblock/eventmachine"
      AT_FIRST["pipe"] = 3 # EventMachine's own
      wrong = nil
      EM.run { NB.async { (wrong = block.call) && EM.stop } }
      wrong
    end,
    "server" => lambda do |&block|
      require "neverblock/server"
      Served.new(block).run
    end,
    "worker" => lambda do |&block|
      require "neverblock/server"
      reader, writer = IO.pipe
      Process.wait(fork { reader.close; writer.write(Marshal.dump(Served.new(block).run)); exit!(0) })
      writer.close
      Marshal.load(reader.read)
    end
  }.freeze

  # The application forks, while clients are in every state of a connection.
  class Served
    def initialize(block) = @block = block

    def run
      NB.run do
        server = NB::Server.new(->(env) { call(env) }, bind: "tcp://127.0.0.1:0")
        NB.async { server.run }
        sleep 0.001 until server.ready?
        clients = open_clients(server.port)
        wrong = Marshal.load(ask(server.port, "/matrix"))
        wrong[:clients] = clients.map(&:call).reject { |words| words == "ok" }.join(", ")
        wrong.delete(:clients) if wrong[:clients].empty?
        server.stop.stop
        wrong
      end
    end

    private

    def call(env)
      case env["PATH_INFO"]
      when "/matrix" then [200, {}, [Marshal.dump(@block.call)]]
      when "/runs" then @hold.pop && [200, {}, ["ok"]]
      when "/large" then [200, {}, ["x" * 8_000_000]]
      else [200, {}, [(env["rack.input"].read; "ok")]]
      end
    end

    HEAD = "HTTP/1.1\r\nHost: a\r\n"

    def open_clients(port)
      @hold = Thread::Queue.new
      idle, head, body, runs, large = sockets = Array.new(5) { TCPSocket.new("127.0.0.1", port) }
      idle.write("GET / #{HEAD}\r\n")
      answer(idle)
      head.write("GET / HTTP/1.1\r\n")
      body.write("POST / #{HEAD}Content-Length: 4\r\n\r\nab")
      runs.write("GET /runs #{HEAD}\r\n")
      large.write("GET /large #{HEAD}\r\n")
      sleep 0.02
      quiet = sockets - [large]
      [-> { quiet.all? { |io| io.read_nonblock(1, exception: false) == :wait_readable } ? "ok" : "a client has heard something" },
       -> { idle.write("GET / #{HEAD}\r\n"); answer(idle) }, -> { head.write("Host: a\r\n\r\n"); answer(head) },
       -> { body.write("cd"); answer(body) }, -> { @hold << true; answer(runs) },
       -> { answer(large) == "x" * 8_000_000 ? "ok" : "large is broken" }]
    end

    def ask(port, path)
      socket = TCPSocket.new("127.0.0.1", port)
      socket.write("GET #{path} #{HEAD}\r\n")
      answer(socket)
    end

    def answer(socket)
      head = Timeout.timeout(60) { socket.gets("\r\n\r\n") } or return "closed without an answer"
      socket.read(head[/content-length: (\d+)/i, 1].to_i)
    end
  end
end

if $PROGRAM_NAME == __FILE__
  place = ARGV.shift
  endings = ARGV.empty? ? ForkMatrix::ENDINGS.keys : ARGV.map(&:to_sym)
  $stdout.sync = true
  main = Process.pid
  wrong = ForkMatrix::PLACES.fetch(place).call { ForkMatrix.new.run(endings) }
  if Process.pid == main
    puts wrong.empty? ? "#{place}: #{endings.size} endings, nothing crossed" : "#{place}: #{wrong}"
    exit!(wrong.empty?)
  end
end
# rubocop:enable Layout/LineLength
