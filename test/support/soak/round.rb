# frozen_string_literal: true

# rubocop:disable Layout/LineLength -- a script or an expectation each, better on one line

require_relative "../clock"
require_relative "../certificates"
require_relative "../leaks"
require_relative "../slow_proxy"
require_relative "worker"
require_relative "activities"

module Soak
  # Some seconds of one loop: servers, a proxy that misbehaves, workers, and one who cuts workers
  # off and takes fds away. Afterwards nothing may be left.
  class Round
    include Clock

    WORKERS = 40

    attr_reader :proxy, :http_port, :tls_port, :lock, :condition, :failures, :done

    # @param seconds [Numeric]
    # @param backend [Symbol]
    # @param random [Random]
    def initialize(seconds, backend, random)
      @seconds = seconds
      @backend = backend
      @random = random
      @failures = []
      @lock = Thread::Mutex.new
      @condition = Thread::ConditionVariable.new
    end

    def run
      before = Leaks.snapshot
      NB.run(backend: @backend) { all }
      left = left_since(before)
      failed("left behind: #{left.map { |what| owner(what) }.join(", ")}") unless left.empty?
      self
    end

    def over? = clock > @deadline
    def failed(text) = @failures << "#{@backend}: #{text}"

    # Lets others run until the block is true, a second at most.
    def patient
      200.times do
        return true if yield

        sleep 0.005
      end
      false
    end

    private

    # A cut in the middle of TCPSocket.new leaves an object that only the collector closes.
    def left_since(before)
      # getaddrinfo(3) that nobody waits for any more keeps its socket until the server answers.
      50.times do
        GC.start
        reap(before)
        left = Leaks.since(before, patience: 0.2)
        return left if left.empty?
      end
      Leaks.between(before, Leaks.snapshot)
    end

    # A cut in the middle of IO.popen leaves a child nobody knows of, as Thread#raise does in blocking
    # Ruby: it has ended, since its pipes are closed. One that still runs is a failure.
    def reap(before)
      (Leaks.children - before[:children]).each do |pid|
        Process.wait(pid, Process::WNOHANG)
      rescue Errno::ECHILD
        next
      end
    end

    # Which object still holds an fd: none means that it was lost in C.
    def owner(what)
      fd = what[/\Afd (\d+)/, 1] or return what
      ios = ObjectSpace.each_object(IO).select { |io| !io.closed? && io.fileno == Integer(fd) }
      address = Socket.for_fd(Integer(fd)).tap { |socket| socket.autoclose = false }
      "#{what} #{address.local_address.inspect} -> #{outcome { address.remote_address.inspect }} of #{ios.inspect}"
    rescue SystemCallError, ArgumentError
      what
    end

    def outcome
      yield
    rescue SystemCallError => error
      error.class
    end

    def all
      @deadline = clock + @seconds
      @servers = []
      start_servers
      workers = Array.new(WORKERS) { Worker.new(self, Random.new(@random.rand(2**32))) }
      fibers = workers.map { |worker| Fiber.schedule { worker.run } }
      disturb(workers) until over?
      Process.setrlimit(:NOFILE, *@limit) if @limit
      hung(workers) unless patient { fibers.none?(&:alive?) }
      died = workers.count { |worker| !worker.fiber.alive? && !worker.ended? }
      failed("#{died} workers ended before the round was over") if died.positive?
      stop_servers
      @done = workers.map(&:done).inject { |sum, one| sum.merge(one) { |_, a, b| a + b } }
      [workers, fibers].each(&:clear) # else whatever keeps one of them keeps all
      empty?
    end

    def disturb(workers)
      sleep @random.rand(0.004)
      worker = workers.sample(random: @random)
      if worker.open_to_cuts? && worker.fiber.alive?
        Fiber.scheduler.fiber_interrupt(worker.fiber, Cut.new("cut off"))
      end
      few_fds if @random.rand(300).zero?
    end

    # For a moment the process may open no more fds: EMFILE everywhere.
    def few_fds
      @limit = Process.getrlimit(:NOFILE)
      highest = Dir.children("/proc/self/fd").map(&:to_i).max
      Process.setrlimit(:NOFILE, highest + 1, @limit[1])
      sleep 0.02
    ensure
      Process.setrlimit(:NOFILE, *@limit)
      @limit = nil
    end

    def start_servers
      @http_port = serve(TCPServer.new("127.0.0.1", 0)) { |socket| answer(socket) }
      plain = TCPServer.new("127.0.0.1", 0)
      serve(OpenSSL::SSL::SSLServer.new(plain, Certificates.server_context).tap { |s|
 s.start_immediately = false },
            @tls_port = plain.addr[1]) { |socket| socket.accept && echo(socket) }
      @proxy = SlowProxy.new(@http_port, Random.new(@random.rand(2**32))) { |&block|
 Fiber.schedule(&block) }
      Fiber.schedule { @proxy.run }
      @servers << @proxy
    end

    def serve(server, port = server.addr[1])
      @servers << server
      Fiber.schedule do
        loop do
          socket = server.accept
          Fiber.schedule { attend(socket) { yield socket } }
        rescue Errno::EMFILE, Errno::ECONNABORTED
          sleep 0.005
        end
      rescue IOError, Errno::EBADF
        nil # closed
      end
      port
    end

    def attend(socket)
      (@sockets ||= []) << socket
      yield
    rescue SystemCallError, IOError, OpenSSL::SSL::SSLError
      nil # the client is gone
    ensure
      close(socket)
      @sockets.delete(socket)
    end

    def close(socket)
      socket.close unless socket.closed?
    rescue SystemCallError, IOError, OpenSSL::SSL::SSLError
      socket.to_io.close
    end

    # Speaks HTTP to those who do, and echoes the others.
    def answer(socket)
      first = socket.readpartial(16_384)
      return echo(socket, first) unless first.start_with?("GET /")

      size = Integer(first[%r{/(\d+)}, 1])
      socket.write("HTTP/1.1 200 OK\r\nContent-Length: #{size}\r\nConnection: close\r\n\r\n#{"x" * size}")
    end

    def echo(socket, first = nil)
      socket.write(first) if first
      loop { socket.write(socket.readpartial(16_384)) }
    end

    def stop_servers
      @servers.each(&:close)
      @sockets&.dup&.each { |socket| close(socket) }
    end

    def empty?
      return if patient {
 Fiber.scheduler.stats[:fibers] <= 1 && Fiber.scheduler.stats[:timers] <= 1 }

      waits = Fiber.scheduler.waits.map { |wait| describe(wait) }
      failed("still in the loop: #{Fiber.scheduler.stats}\n  #{waits.join("\n  ")}")
    end

    def hung(workers)
      fibers = workers.map(&:fiber).select(&:alive?)
      waits = Fiber.scheduler.waits.select { |wait| fibers.include?(wait[:fiber]) }
      failed("workers do not end:\n  #{waits.map { |wait| describe(wait) }.join("\n  ")}\n" \
             "children: #{Leaks.children.map { |pid| child(pid) }.join(", ")}")
      fibers.each { |fiber| Fiber.scheduler.fiber_interrupt(fiber, Cut.new) }
    end

    def child(pid)
      files = Dir.children("/proc/#{pid}/fd").map { |fd| "#{fd}=#{File.readlink("/proc/#{pid}/fd/#{fd}")}" }
      "#{pid} #{File.read("/proc/#{pid}/cmdline").tr("\0", " ")}[#{files.join(" ")}] in " \
        "#{File.read("/proc/#{pid}/wchan")}, system call #{File.read("/proc/#{pid}/syscall")}"
    rescue SystemCallError
      "#{pid} gone"
    end

    # With what the kernel says of the fd: ready means that our loop has lost a wake-up.
    def describe(wait)
      kernel = Fiber.new(blocking: true) do
        wait[:fds].map do |fd, mask|
          ready = IO.for_fd(fd, autoclose: false).wait(mask, 0)
          [fd, File.readlink("/proc/self/fd/#{fd}"), ready ? :ready : :not_ready]
        end
      end.resume
      locked = wait[:blocker].locked? if wait[:blocker].is_a?(Thread::Mutex)
      "#{wait.inspect} kernel: #{kernel} locked: #{locked.inspect} #{wait[:fiber].backtrace&.first(8)}"
    rescue SystemCallError => error
      "#{wait.inspect} kernel: #{error.class}"
    end
  end
end
# rubocop:enable Layout/LineLength
