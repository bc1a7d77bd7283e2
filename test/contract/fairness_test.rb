# frozen_string_literal: true

require_relative "../support/contract"

# Fibers that always find something to do leave the others their turns: those that wait for a time
# are judged by how often the busy ones came first, not by the clock: a busy machine stretches it.
class FairnessContract < Contract
  SLICE = 0.001 # seconds of the CPU's time

  # How often the busy ones went on during each of some short sleeps, at most.
  def most_turns_in_a_sleep(sleeps = 20)
    sleeps.times.map do
      before = @turns
      sleep 0.001
      @turns - before
    end.max
  end

  # The same for count turns of the block, each with computing, from the first one on.
  def most_turns_of(count)
    @busy = true
    @turns = 0
    using = strand { compute(SLICE / 2) while @busy && @turns < count && yield }
    first = @turns
    most = most_turns_in_a_sleep(3)
    @busy = false
    using.value
    [first, most].max
  end

  def compute(seconds)
    @turns += 1
    limit = Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID) + seconds
    nil while Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID) < limit
  end

  def setup
    super
    @turns = 0
    @busy = true
  end

  # The block is called in each turn.
  #
  # @return [Array<Thread::Queue>] two, through which fibers hand each other work forever
  def hand_to_each_other
    queues = [Queue.new, Queue.new]
    [queues, queues.reverse].each do |from, to|
      from << 1
      strand do
        while @busy
          from.pop
          compute(SLICE)
          yield if block_given?
          to << 1
        end
      end
    end
    queues
  end

  def end_work(queues)
    @busy = false
    queues.each { |queue| 2.times { queue << 1 } }
  end

  contract "those who compute between their waits do not hold up a timer",
           only: :fibers, gap: nil do
    queues = hand_to_each_other
    most = most_turns_in_a_sleep
    end_work(queues)
    assert_operator most, :<=, 8, "64 switches were made between two looks at the clock"
  end

  contract "those who compute between their waits do not hold up a socket",
           only: :fibers, gap: nil do
    reader, writer = keep(*UNIXSocket.pair)
    queues = hand_to_each_other
    most = 10.times.map do
      answer = Queue.new
      strand { answer << [reader.read(1), @turns].last }
      sleep 0.001
      writer.write("x")
      before = @turns
      answer.pop - before
    end.max
    end_work(queues)
    assert_operator most, :<=, 8
  end

  contract "those who compute between reads that need no wait do not hold up a timer",
           only: :fibers, gap: nil do
    Tempfile.create do |file|
      file.write("x" * 1_000_000)
      file.flush
      2.times do
        strand do
          File.open(file.path) do |source|
            compute(SLICE / 2) while @busy && (source.sysread(100) || source.rewind)
          end
        end
      end
      most = most_turns_in_a_sleep
      @busy = false
      assert_operator most, :<=, 16, "each read 64 times before the other's turn"
    end
  end

  # How often one of these goes on where it always finds what it wants, beside a short sleep.
  WITHOUT_A_WAIT = {
    "read_nonblock" => ->(socket, _) { socket.read_nonblock(1) },
    "recv_nonblock" => ->(socket, _) { socket.recv_nonblock(1) },
    "recvmsg_nonblock" => ->(socket, _) { socket.recvmsg_nonblock(1) },
    "read_nonblock of a plain IO" => ->(_, plain) { plain.read_nonblock(1) },
    "write_nonblock" => ->(socket, _) { socket.write_nonblock("x") },
    "sendmsg_nonblock" => ->(socket, _) { socket.sendmsg_nonblock("x") },
    "write_nonblock of a plain IO" => ->(_, plain) { plain.write_nonblock("x") },
    "recv" => ->(socket, _) { socket.recv(1) },
    "recvmsg" => ->(socket, _) { socket.recvmsg(1) },
    "send" => ->(socket, _) { socket.send("x", 0) },
    "sendmsg" => ->(socket, _) { socket.sendmsg("x") }
  }.freeze

  WITHOUT_A_WAIT.each do |name, use|
    contract "who computes between calls of #{name} does not hold up a timer",
             only: :fibers, gap: nil do
      socket, peer = keep(*UNIXSocket.pair)
      plain = keep(IO.for_fd(socket.fileno, "r+", autoclose: false))
      plain.sync = true
      peer.write("y" * 100)
      assert_operator most_turns_of(100) { use.call(socket, plain) }, :<=, 8
    end
  end

  # Such as async-pool, which asks all its connections while it iterates over them.
  contract "who only looks what has come is alone, unless it looks very often",
           only: :fibers, gap: nil do
    socket, peer = keep(*UNIXSocket.pair)
    peer.write("y")
    others = 0
    @busy = true
    counting = strand { sleep 0 while @busy && others += 1 }
    before = others
    compute(SLICE * 2)
    200.times { look(socket) }
    assert_equal before, others
    1_000.times { look(socket) }
    refute_equal before, others
    @busy = false
    counting.value
  end

  def look(socket)
    socket.recv_nonblock(1, Socket::MSG_PEEK)
    socket.recvmsg_nonblock(1, Socket::MSG_PEEK)
  end

  contract "who computes between datagrams does not hold up a timer", only: :fibers, gap: nil do
    one, two = keep(UDPSocket.new, UDPSocket.new)
    [one, two].each { |socket| socket.bind("127.0.0.1", 0) }
    one.connect("127.0.0.1", two.local_address.ip_port)
    assert_operator most_turns_of(100) { one.send("x", 0) }, :<=, 8
    100.times { one.send("x", 0) }
    assert_operator most_turns_of(20) { two.recvfrom(1) && two.recvfrom_nonblock(1) }, :<=, 8
  end

  contract "who computes between accepts that need no wait does not hold up a timer",
           only: :fibers, gap: nil do
    servers = [TCPServer.new("127.0.0.1", 0), Socket.new(:INET, :STREAM)]
    keep(*servers)
    servers.last.bind(Addrinfo.tcp("127.0.0.1", 0))
    servers.each do |server|
      server.listen(100)
      40.times { keep(TCPSocket.new("127.0.0.1", server.local_address.ip_port)) }
      most = most_turns_of(40) do
        accepted = @turns.odd? ? server.accept_nonblock : server.accept
        keep(accepted.is_a?(Array) ? accepted.first : accepted)
      end
      assert_operator most, :<=, 8, server.class.name
    end
  end

  contract "who computes between the fibers that it starts does not hold up a timer",
           only: :fibers, gap: nil do
    assert_operator most_turns_of(100) { Fiber.schedule { sleep 0.001 } }, :<=, 24
  end

  contract "who starts many fibers asks the kernel once per slice, not at each start",
           only: :fibers, gap: nil, ticker: false, chaos: false do
    before = scheduler.stats[:polls]
    start = clock
    5_000.times { Fiber.schedule { nil } }
    slices = (clock - start) / SLICE
    polls = scheduler.stats[:polls] - before
    assert_operator polls, :<=, slices + (5_000 / 64) + 2, "64 switches come before a look as well"
  end

  # What it holds at that moment is the new fiber's, such as an accepted socket.
  contract "who starts fibers is cancelled at a wait, not between two of them",
           only: :fibers, gap: nil do
    held = taken = 0
    starter = NB.async do
      compute(SLICE / 2) while @busy && (held += 1) && Fiber.schedule { taken += 1 }
      sleep
    end
    sleep 0.01
    starter.cancel
    @busy = false
    starter.wait
    assert_predicate starter, :cancelled?
    assert_operator held, :>, 2
    assert_equal held, taken
  end

  TLS = {
    "read_nonblock" => ->(tls) { tls.read_nonblock(10) },
    "readpartial" => ->(tls) { tls.readpartial(10) },
    "write_nonblock" => ->(tls) { tls.write_nonblock("x" * 10) },
    "write" => ->(tls) { tls.write("x" * 10) }
  }.freeze

  TLS.each do |name, use|
    contract "who computes between a TLS socket's #{name} does not hold up a timer",
             only: :fibers, gap: nil do
      near, far = Streams.ssl_tcp(self)
      100.times { far.syswrite("y" * 10) } # a record each
      assert_operator most_turns_of(100) { use.call(near) }, :<=, 8
    end
  end

  same_as_threads "what counts answers, raises and looks as before" do
    socket, peer = keep(*UNIXSocket.pair)
    peer.write("abc")
    server = keep(TCPServer.new("127.0.0.1", 0))
    [socket.read_nonblock(1), socket.recv(1), socket.recvmsg.first,
     socket.read_nonblock(1, exception: false), socket.write_nonblock("x", exception: false),
     outcome { socket.read_nonblock(1) }, outcome { socket.recv }, outcome { socket.recv(-1) },
     outcome { socket.read_nonblock(1, 2, 3) }, outcome { socket.write_nonblock },
     outcome { server.accept_nonblock }, outcome { server.accept(1) }]
  end

  LOOKS = <<~RUBY
    p [BasicSocket, TCPServer, UDPSocket, Socket, IO].map { |owner|
      names = %i[read_nonblock write_nonblock recv send recvfrom accept accept_nonblock]
      names.select { |name| owner.method_defined?(name) }.map { |name|
        method = owner.instance_method(name)
        [name, method.owner, method.arity]
      } + owner.ancestors.grep_v(/PP|Kernel/).first(5)
    }
  RUBY

  contract "what counts looks as before", only: :fibers, gap: nil do
    plain, counted = [[], %w[-Ilib -rneverblock]].map do |options|
      loop = options.empty? ? LOOKS : "NB.run { #{LOOKS} }"
      IO.popen([RbConfig.ruby, *options, "-rsocket", "-e", loop], &:read)
    end
    refute_empty plain
    assert_equal plain, counted
  end

  # A socket that the loop watches, and on which all that came was read.
  def watched_pair
    reader, writer = keep(*UNIXSocket.pair)
    waiting = parked { reader.wait_readable }
    writer.write("x")
    waiting.value
    reader.sysread(1)
    [reader, writer]
  end

  contract "who waits for a socket lets those go first that can go on",
           only: :fibers, gap: nil, chaos: false do
    reader, writer = watched_pair
    gate = Queue.new
    order = []
    other = parked { gate.pop.then { order << :other } }
    gate << 1
    writer.write("x")
    reader.wait_readable
    order << :self
    other.value
    edge = scheduler.stats[:backend].to_s == "epoll"
    assert_equal edge ? %i[other self] : %i[self other], order
    assert_equal "x", reader.sysread(1)
  end

  # Turns of the others in which 200 pairs of a wait and a read are made.
  def turns_of_200_reads(reader)
    before = @turns
    200.times { reader.wait_readable && yield }
    @turns - before
  end

  contract "who leaves bytes unread and waits again is not kept back by those that can go on",
           only: :fibers, gap: nil do
    reader, writer = watched_pair
    writer.write("x" * 200)
    queues = hand_to_each_other
    passed = turns_of_200_reads(reader) { reader.sysread(1) }
    end_work(queues)
    assert_operator passed, :<=, 150, "after some wrong guesses it asks first"
  end

  # Unchecked, the guesses let 290 turns pass and more; checked, 128 to 184, as the turns fall.
  contract "nor is it if more comes meanwhile", only: :fibers, gap: nil do
    reader, writer = watched_pair
    writer.write("x" * 20)
    queues = hand_to_each_other { writer.write("x" * 3) }
    passed = turns_of_200_reads(reader) { reader.sysread(1) }
    end_work(queues)
    assert_operator passed, :<=, 220, "some guesses are checked"
  end

  contract "who waits for each datagram is not kept back by those that can go on",
           only: :fibers, gap: nil do
    reader, writer = keep(*UNIXSocket.pair(:DGRAM))
    waiting = parked { reader.wait_readable && reader.recv(1) }
    writer.send("x", 0)
    waiting.value
    queues = hand_to_each_other { 9.times { writer.send("x", 0) } if @turns < 80 }
    passed = turns_of_200_reads(reader) { reader.recv_nonblock(1) }
    end_work(queues)
    assert_operator passed, :<=, 60
  end
end
