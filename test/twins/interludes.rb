# frozen_string_literal: true

require "open3"
require "tempfile"

module Twins
  # What a worker does between two messages, without any channel. Each returns something that does
  # not depend on time.
  module Interludes
    SILENT, @never = IO.pipe
    LOCK = Thread::Mutex.new
    EMPTY = Thread::Queue.new
    MONITOR = Monitor.new

    ALL = {
      pause: -> { sleep(0.001).class },
      pass: -> { Thread.pass },
      late_read: -> { Timeout.timeout(0.002) { SILENT.read(1) } },
      late_gets: -> { Timeout.timeout(0.002, ArgumentError, "late") { SILENT.gets } },
      late_pop: -> { Timeout.timeout(0.002) { EMPTY.pop } },
      late_outside: lambda do
        Timeout.timeout(0.002) { Timeout.timeout(5) { SILENT.readpartial(1) } }
      rescue Timeout::Error => error
        [error.class, error.message]
      end,
      nothing_to_read: -> { SILENT.read_nonblock(1) },
      nothing_to_pop: -> { EMPTY.pop(true) },
      select: -> { IO.select([SILENT], nil, nil, 0.001) },
      wait: -> { SILENT.wait_readable(0.001) },
      closed: -> { IO.pipe.each(&:close).first.read },
      broken: lambda do
        reader, writer = IO.pipe
        reader.close
        writer.write("x")
      ensure
        writer.close
      end,
      critical: -> { LOCK.synchronize { sleep 0.0005; LOCK.owned? } },
      entered_twice: -> { LOCK.synchronize { LOCK.lock } },
      monitor: -> { MONITOR.synchronize { MONITOR.synchronize { sleep 0.0005; :twice } } },
      status: -> { [system("exit 3"), $?.exitstatus] },
      killed: -> { [system("kill -9 $$"), $?.termsig] },
      missing: -> { system("/no/such/program") },
      backticks: -> { [`echo text`, $?.success?] },
      child: -> { Process.wait2(spawn("exit 5")).last.exitstatus },
      capture: -> { Open3.capture2e("cat; exit 2", stdin_data: "x" * 100_000).then { |out, status| [out.size, status.exitstatus] } },
      thread: -> { Thread.new { sleep 0.001; :value }.value },
      raising_thread: -> { Thread.new { Thread.current.report_on_exception = false; raise "inside" }.value },
      enumerator: -> { Enumerator.new { |y| sleep 0.0005; y << 1; sleep 0.0005; y << 2 }.then { |e| [e.next, e.next] } },
      fiber: -> { Fiber.new { |a| sleep 0.0005; Fiber.yield(a + 1) }.resume(1) },
      thrown: -> { catch(:here) { LOCK.synchronize { sleep 0.0005; throw :here, 4 } } },
      locals: lambda do
        seen = Thread.current[:twin]
        Thread.current[:twin] = 1
        sleep 0.0005
        [seen, Thread.current[:twin]]
      ensure
        Thread.current[:twin] = nil
      end,
      file: lambda do
        Tempfile.create("twin") do |file|
          file.flock(File::LOCK_EX)
          file.puts("é", 1)
          file.rewind
          [file.gets, file.pread(2, 0), file.read, file.eof?]
        end
      end
    }.freeze
  end
end
