# frozen_string_literal: true

require "monitor"
require "open3"
require "socket"
require "stringio"
require "tempfile"
require "timeout"

module RandomPrograms
  # What a worker does between two messages, without any channel. Each returns something that does
  # not depend on time.
  module Interludes
    SILENT, @never = IO.pipe
    LOCK = Thread::Mutex.new
    CONDITION = Thread::ConditionVariable.new
    MONITOR = Monitor.new
    EMPTY = Thread::Queue.new
    SHORT = 0.001
    NOBODY = ["127.0.0.1", 1].freeze

    WAITS = {
      pause: -> { sleep(SHORT).class },
      pass: -> { Thread.pass },
      select: -> { IO.select([SILENT], nil, nil, SHORT) },
      wait: -> { SILENT.wait_readable(SHORT) },
      nothing_to_read: -> { SILENT.read_nonblock(1) },
      nothing_to_pop: -> { EMPTY.pop(true) },
      critical: -> { LOCK.synchronize { sleep(SHORT) && LOCK.owned? } },
      entered_twice: -> { LOCK.synchronize { LOCK.lock } },
      monitor: -> { MONITOR.synchronize { MONITOR.synchronize { sleep(SHORT) && :twice } } },
      monitor_condition: lambda do
        MONITOR.synchronize { [MONITOR.new_cond.wait(SHORT).class, MONITOR.mon_owned?] }
      end,
      condition: -> { LOCK.synchronize { CONDITION.wait(LOCK, SHORT).class && LOCK.owned? } },
      thrown: -> { catch(:here) { LOCK.synchronize { sleep(SHORT) && throw(:here, 4) } } },
      matched: -> { "abc" =~ /b/ && sleep(SHORT) && $~[0] },
      collect: -> { GC.start }
    }.freeze

    TIMEOUTS = {
      late_read: -> { Timeout.timeout(SHORT) { SILENT.read(1) } },
      late_gets: -> { Timeout.timeout(SHORT, ArgumentError, "late") { SILENT.gets } },
      late_pop: -> { Timeout.timeout(SHORT) { EMPTY.pop } },
      late_sleep: -> { Timeout.timeout(SHORT) { sleep } },
      late_lock: lambda do
        lock = Thread::Mutex.new
        holder = Thread.new { lock.synchronize { EMPTY.pop } }
        Thread.pass until holder.stop?
        Timeout.timeout(SHORT) { lock.lock }
      ensure
        holder.kill.join
      end,
      late_outside: -> { Timeout.timeout(SHORT) { Timeout.timeout(5) { SILENT.readpartial(1) } } },
      late_inside: -> { Timeout.timeout(5) { Timeout.timeout(SHORT) { SILENT.readpartial(1) } } },
      rescued: lambda do
        Timeout.timeout(SHORT) do
          SILENT.read(1)
        rescue StandardError => error
          error
        end
      end,
      ensured: lambda do
        seen = []
        begin
          Timeout.timeout(SHORT) { SILENT.read(1) }
        ensure
          seen << sleep(SHORT).class
        end
      end,
      in_time: -> { Timeout.timeout(5) { sleep(SHORT) && :value } }
    }.freeze

    # No broken pipe: a child that another worker has just forked may hold its other end.
    FAILURES = {
      closed: -> { IO.pipe.each(&:close).first.read },
      refused: -> { TCPSocket.new(*NOBODY) },
      refused_later: -> { Socket.tcp(*NOBODY, connect_timeout: 5) },
      no_socket: -> { UNIXSocket.new("/no/such/socket") },
      no_file: -> { File.read("/no/such/file") },
      no_name: -> { Addrinfo.getaddrinfo("no.such.name.invalid", 80) }
    }.freeze

    CHILDREN = {
      status: -> { [system("exit 3"), $?.exitstatus] },
      killed: -> { [system("kill -9 $$"), $?.termsig] },
      missing: -> { system("/no/such/program") },
      backticks: -> { [`echo text`, $?.success?] },
      child: -> { Process.wait2(spawn("exit 5")).last.exitstatus },
      group: -> { Process.wait2(-spawn("exit 7", pgroup: true)).last.exitstatus },
      polled: lambda do
        pid = spawn("exit 8")
        sleep(SHORT) until Process.wait(pid, Process::WNOHANG)
        $?.exitstatus
      end,
      detached: -> { Process.detach(spawn("exit 6")).value.exitstatus },
      filter: lambda do
        IO.popen(%w[tr a b], "r+") do |io|
          io.write("aa")
          io.close_write
          io.read
        end
      end,
      capture: lambda do
        out, status = Open3.capture2e("cat; exit 2", stdin_data: "x" * 100_000)
        [out.size, status.exitstatus]
      end
    }.freeze

    OTHERS = {
      thread: -> { Thread.new { sleep(SHORT) && :value }.value },
      late_thread: -> { Thread.new { EMPTY.pop }.then { |one| [one.join(SHORT), one.kill.class] } },
      raising: -> { Thread.new { Thread.current.report_on_exception = false or raise "in" }.value },
      enumerator: lambda do
        one = Enumerator.new { |y| y << sleep(SHORT).class << 2 }
        [one.next, one.next]
      end,
      fiber: -> { Fiber.new { |one| sleep(SHORT) && Fiber.yield(one + 1) }.resume(1) },
      locals: lambda do
        seen = Thread.current[:interlude]
        Thread.current[:interlude] = 1
        sleep(SHORT) && [seen, Thread.current[:interlude]]
      ensure
        Thread.current[:interlude] = nil
      end,
      datagram: lambda do
        UDPSocket.open do |socket|
          socket.bind("127.0.0.1", 0)
          socket.send("x" * 9000, 0, "127.0.0.1", socket.addr[1])
          socket.recvfrom(10_000).first.size
        end
      end,
      file: lambda do
        Tempfile.create("nb") do |file|
          file.flock(File::LOCK_EX)
          file.puts("é", 1)
          file.rewind
          [file.gets, file.pread(2, 0), file.read, file.eof?]
        end
      end
    }.freeze

    # What goes past Ruby's buffers, or changes which file an IO has.
    FILES = {
      reopened: lambda do
        one, other = Array.new(2) { IO.pipe }
        other.last.write("other")
        one.first.reopen(other.first).readpartial(9)
      ensure
        [*one, *other].each(&:close)
      end,
      passed: lambda do
        near, far = UNIXSocket.pair
        reader, writer = IO.pipe
        sending = Thread.new { sleep(SHORT) && near.send_io(writer) }
        far.recv_io(IO, "w").tap { |io| io.write("x") }.close
        sending.join && reader.read(1)
      ensure
        [near, far, reader, writer].each(&:close)
      end,
      with_rights: lambda do
        near, far = UNIXSocket.pair(:DGRAM)
        near.sendmsg("m", 0, nil, Socket::AncillaryData.unix_rights(near))
        message, _, _, control = far.recvmsg(scm_rights: true)
        control.unix_rights.each(&:close)
        [message, control.unix_rights.size]
      ensure
        [near, far].each(&:close)
      end,
      unix_datagrams: lambda do
        near, far = UNIXSocket.pair(:DGRAM)
        sending = Thread.new { 300.times { |i| near.send(i.to_s * 300, 0) } }
        [Array.new(300) { far.recv(2000) }.sum(&:size), sending.value]
      ensure
        [near, far].each(&:close)
      end,
      peeked: lambda do
        near, far = UNIXSocket.pair
        sending = Thread.new { sleep(SHORT) && far.write("ab") }
        sending.join && [near.recv(1, Socket::MSG_PEEK), near.recv(9)]
      ensure
        [near, far].each(&:close)
      end,
      positioned: lambda do
        Tempfile.create("nb") do |file|
          [file.pwrite("abc", 2), file.pread(3, 1), file.pos, file.size, file.sysread(9)]
        end
      end,
      copied: lambda do
        reader, writer = IO.pipe
        text = StringIO.new
        filling = Thread.new { writer.write("x" * 100_000) && writer.close }
        [IO.copy_stream(reader, text), filling.value, text.size]
      ensure
        [reader, writer].each(&:close)
      end
    }.freeze

    # Lines and characters that come in pieces.
    TEXTS = {
      transcoded: -> { pieces(%W[a\0 \xE9 \0\n \0b\0], "UTF-16LE:UTF-8") { |io|
 [io.gets, io.read] } },
      unread: lambda do
        pieces(%W[\xC3 \xA9x]) { |io| [io.getc, io.ungetc("ß") && io.getc, io.getc, io.getc] }
      end,
      paragraphs: -> { pieces(%W[\n\na \nb\n \n\n\nc]) { |io|
 [io.gets(""), io.gets(""), io.lineno] } },
      cut: -> { pieces(%W[\xC3 \xA9\xC3 \xA9\nab]) { |io|
 [io.gets(1), io.gets(2), io.gets("b", 5)] } },
      characters: -> { pieces(%W[\xE2 \x82\xACx]) { |io| io.each_char.to_a } },
      lines: -> { pieces(%W[a\nb \n\nc]) { |io| io.readlines(chomp: true) } },
      universal: lambda do
        pieces(%W[a\r \nb\rc\n], "UTF-8", universal_newline: true) { |io| [io.gets, io.read] }
      end,
      invalid: -> { pieces(%W[\xE2 a], "UTF-8:ISO-8859-1", &:gets) },
      marshalled: lambda do
        reader, writer = IO.pipe
        writing = Thread.new { [1, "x" * 100_000].each { |one| Marshal.dump(one, writer) } }
        [Marshal.load(reader), Marshal.load(reader).size, writing.value.size]
      ensure
        [reader, writer].each(&:close)
      end
    }.freeze

    # Descriptors that two share, and messages without bytes.
    DESCRIPTORS = {
      twins: lambda do
        reader, writer = IO.pipe
        twin = IO.for_fd(reader.fileno, autoclose: false)
        readers = [reader, twin].map { |io| Thread.new { io.readpartial(1) } }
        sleep(SHORT)
        writer.write("ab")
        readers.map(&:value).sort
      ensure
        [reader, writer].each(&:close)
      end,
      copies: lambda do
        near, far = UNIXSocket.pair
        copy = near.dup
        reading = Thread.new { near.read(1) }
        sleep(SHORT)
        copy.close
        far.write("a") && reading.value
      ensure
        [near, far].each(&:close)
      end,
      empty_datagrams: lambda do
        UDPSocket.open do |socket|
          socket.bind("127.0.0.1", 0)
          sending = Thread.new { 3.times { socket.send("", 0, "127.0.0.1", socket.addr[1]) } }
          [socket.recvfrom(9).first, socket.recv(9), socket.recvmsg(9).first, sending.value]
        end
      end,
      packets: lambda do
        near, far = UNIXSocket.pair(:SEQPACKET)
        sending = Thread.new { sleep(SHORT) && %w[ab c].each { |one| near.send(one, 0) } }
        [far.recv(9), far.recv(9), sending.value]
      ensure
        [near, far].each(&:close)
      end,
      odd_timeout: lambda do
        seconds = Class.new { def divmod(_) = [0, SHORT] }.new
        [SILENT.wait_readable(seconds), IO.select([SILENT], nil, nil, seconds),
sleep(seconds).class]
      end
    }.freeze

    # Children whose descriptors, groups and states the parent chooses.
    KIN = {
      mapped: lambda do
        reader, writer = IO.pipe
        pid = spawn("echo out; echo err >&2", out: writer, err: %i[child out])
        writer.close
        [reader.read, Process.wait2(pid).last.exitstatus]
      ensure
        reader.close
      end,
      stopped: lambda do
        pid = spawn("kill -STOP $$; exit 5")
        stopped = Process.wait2(pid, Process::WUNTRACED).last.stopsig
        Process.kill(:CONT, pid)
        [stopped, Process.wait2(pid).last.exitstatus]
      end,
      both_ways: lambda do
        out, err, status = Open3.capture3("tee /dev/stderr", stdin_data: "x" * 300_000)
        [out.size, err.size, status.success?]
      end,
      pipeline: -> { Open3.pipeline_r("echo a", "tr a b") { |out, all|
 [out.read, all.last.value.to_i] } },
      nobody: -> { Process.wait(2**22 + 1) }
    }.freeze

    # Calls the block with the end of a pipe from which the parts come one by one.
    def self.pieces(parts, *encoding, **options)
      reader, writer = IO.pipe
      reader.set_encoding(*(encoding.empty? ? ["UTF-8"] : encoding), **options)
      writing = Thread.new do
        parts.each { |part| sleep(SHORT) && writer.syswrite(part.b) }
        writer.close
      end
      yield reader
    ensure
      writing.join
      reader.close
    end

    # From Ruby 3.2 on.
    NEWER = {
      late_pop_of_its_own: -> { EMPTY.pop(timeout: SHORT) },
      late_push: -> { Thread::SizedQueue.new(1).then { |one| (one << 1).push(2, timeout: SHORT) } },
      own_lock: lambda do
        lock = Thread::Mutex.new
        steps = Enumerator.new { |found| lock.synchronize { found << 1 } }
        lock.synchronize { steps.next }
      end,
      late_io: lambda do
        reader, writer = IO.pipe
        reader.timeout = SHORT
        reader.read(1)
      ensure
        [reader, writer].each(&:close)
      end
    }.freeze

    # From Ruby 3.4 on, the child of a process with other threads may hang before it begins.
    OLDER = {
      forked: -> { Process.wait(fork { sleep(SHORT) && exit!(4) }) && $?.exitstatus }
    }.freeze

    ALL = { **WAITS, **TIMEOUTS, **FAILURES, **CHILDREN, **OTHERS, **FILES,
            **TEXTS, **DESCRIPTORS, **KIN,
            **(RUBY_VERSION < "3.2" ? {} : NEWER),
            **(RUBY_VERSION < "3.4" ? OLDER : {}) }.freeze
  end
end
