# frozen_string_literal: true

# rubocop:disable Layout/LineLength -- a script or an expectation each, better on one line

require "minitest/autorun"
require "open3"
require "tmpdir"

# Repairs replace methods in place, only where asked, and can be left out.
class RepairsTest < Minitest::Test
  LIB = File.expand_path("../../lib", __dir__)
  WATCHED = "[IO.instance_method(:close), Thread.instance_method(:join), IO.method(:select), " \
            "File.instance_method(:flock), Fiber.instance_method(:raise)].map(&:source_location)"

  def ruby(script, env = {})
    output, status = Open3.capture2e(env, RbConfig.ruby, "-w", "-I#{LIB}", "-rneverblock", "-rsocket",
                                     "-e", script)
    assert_predicate status, :success?, output
    output
  end

  def test_nothing_is_replaced_before_the_first_loop_or_when_switched_off
    assert_equal "[nil, nil, nil, nil, nil]\n", ruby("p #{WATCHED}")
    assert_equal "[nil, nil, nil, nil, nil]\n", ruby("NB.run(repairs: false) { p #{WATCHED} }")
    assert_equal "[nil, nil, nil, nil, nil]\n",
      ruby("NB.run { p #{WATCHED} }", { "NB_REPAIRS" => "0" })
  end

  def test_only_what_this_ruby_needs_is_loaded
    installed = ruby("NB.run { puts NB::Repairs.installed }").split
    old = Gem::Version.new(RUBY_VERSION) < Gem::Version.new("3.2")

    assert_equal old, installed.include?("io_select")
    assert_equal Gem::Version.new(RUBY_VERSION) >= Gem::Version.new("3.4"),
      installed.include?("tcp_fast_fallback")
  end

  # As Net::SSH::Test does with IO.select.
  CHAIN = <<~'RUBY'
    CALLS = []
    [IO.singleton_class, Kernel, Kernel.singleton_class].each do |owner|
      owner.class_eval do
        alias_method :rubys_select, :select
        define_method(:select) { |*lists| rubys_select(*lists).tap { CALLS << owner } }
      end
    end
    NB.run do
      reader, = IO.pipe
      turns = 0
      ticker = NB.async { loop { (turns += 1) && sleep(0.001) } }
      [IO, self, Kernel].each { |one| one.send(:select, [reader], nil, nil, 0.02) }
      ticker.cancel
      p CALLS, turns > 5
    end
  RUBY

  def test_a_program_that_has_replaced_select_before
    assert_equal "[#<Class:IO>, Kernel, #<Class:Kernel>]\ntrue\n", ruby(CHAIN)
  end

  def test_ancestors_and_owners_stay_as_they_are
    script = "p [IO, File, TCPSocket, Thread, Fiber, Kernel].map(&:ancestors); " \
             "p IO.instance_method(:close).owner, Fiber.instance_method(:raise).owner"

    assert_equal ruby(script), ruby("NB.run { }; #{script}")
  end

  def test_what_an_application_put_in_place_of_a_method_stays
    script = <<~RUBY
      class BasicSocket
        def read_nonblock(...) = "theirs"
        def write_nonblock(data, exception: true) = super + 100
      end
      NB.run { UNIXSocket.pair.then { |a, b| p a.write_nonblock("x"), b.read_nonblock(1) } }
    RUBY
    assert_equal "101\n\"theirs\"\n", ruby("$VERBOSE = nil; #{script}")
  end

  # As agents that trace threads do; a repair that took theirs for the original would never end.
  def test_what_an_application_put_in_front_of_a_method_stays
    script = <<~RUBY
      module Pass
        def self.to(owner, name)
          visible = owner.private_method_defined?(name) ? :private : :public
          owner.prepend(Module.new { define_method(name) { |*a, **k, &b| $passed << name; super(*a, **k, &b) }; send(visible, name) })
        end
      end
      $passed = Thread::Queue.new
      def names(owner) = owner.instance_methods(false) + owner.private_instance_methods(false)
      all = [Thread, Fiber, IO, File, Thread::Mutex, BasicSocket, Socket, Addrinfo, TCPSocket, UDPSocket, IPSocket]
        .flat_map { |owner| [owner, owner.singleton_class] }
      before = all.to_h { |owner| [owner, names(owner).to_h { |name| [name, owner.instance_method(name)] }] }
      if ARGV[0] == "list"
        NB.run { }
        changed = all.flat_map { |o| names(o).select { |n| before[o][n] && before[o][n] != o.instance_method(n) }.map { |n| [o, n] } }
        print Marshal.dump(changed.map { |o, n| [o.singleton_class? ? o.inspect[/:(.*)>/, 1] : o.name, o.singleton_class?, n] })
        exit
      end
      changed = Marshal.load($stdin.binmode.read)
      changed.each { |name, single, method| Pass.to(single ? Object.const_get(name).singleton_class : Object.const_get(name), method) }
      server = TCPServer.new("127.0.0.1", 0)
      NB.run do
        one, other = IO.pipe
        Thread.new { sleep 0.01; other.puts "a" }.join
        IO.select([one], nil, nil, 1)
        one.sysread(1)
        Thread.new { Thread.stop }.tap { |thread| sleep 0.001 until thread.stop?; thread.run; thread.join }
        File.open(__FILE__ == "-e" ? "/proc/self/exe" : __FILE__) { |file| file.flock(File::LOCK_SH) }
        lock = Thread::Mutex.new.tap(&:lock)
        lock.sleep(0.001)
        Thread.handle_interrupt(RuntimeError => :never) { sleep 0 }
        fiber = Fiber.new { begin Fiber.yield; rescue IOError; :raised; end }.tap(&:resume)
        raise unless fiber.raise(IOError) == :raised
        Socket.tcp("127.0.0.1", server.local_address.ip_port) { |socket| socket.remote_address.ip_address }
        TCPSocket.new("localhost", server.addr[1]).close
        one.reopen(File::NULL)
        [one, other].each(&:close)
      end
      puts changed.map(&:last).uniq.size, $passed.size.positive?
    RUBY
    list, status = Open3.capture2(RbConfig.ruby, "-I#{LIB}", "-rneverblock", "-rsocket", "-e", script, "list", binmode: true)
    assert_predicate status, :success?
    output, status = Open3.capture2e(RbConfig.ruby, "-W0", "-I#{LIB}", "-rneverblock", "-rsocket", "-e", script, stdin_data: list, binmode: true)
    assert_predicate status, :success?, output[0, 2000]
    count, passed = output.split
    assert_operator count.to_i, :>, 10
    assert_equal "true", passed
  end

  # Ruby made one for every address that it wrote as text, and waited for it: this thread slept.
  def test_addresses_as_text_take_no_native_thread
    script = <<~RUBY
      sleeps = Fiber.new(blocking: true) do
        loop { Fiber.yield File.read("/proc/thread-self/status")[/^voluntary_ctxt\\w+:\\s+(\\d+)/, 1].to_i }
      end
      NB.run do
        server = TCPServer.new("127.0.0.1", 0)
        client = TCPSocket.new("localhost", server.addr[1])
        Addrinfo.tcp("localhost", 80)
        before = sleeps.resume
        100.times do
          Addrinfo.tcp("localhost", 80)
          Addrinfo.udp("::1", "80").ip_address
          Socket.getaddrinfo("localhost", 80, nil, :STREAM)
          client.peeraddr
          Socket.unpack_sockaddr_in(client.getsockname)
        end
        puts sleeps.resume - before
      end
    RUBY
    assert_operator Integer(ruby(script)), :<, 20
  end

  def test_fibers_that_meet_in_an_autoload_all_get_the_constant
    Dir.mktmpdir do |folder|
      File.write("#{folder}/slow.rb", "sleep 0.01; module Slow; end")
      script = "autoload :Slow, '#{folder}/slow.rb'; " \
               "p NB.run { NB.gather(*Array.new(3) { -> { Slow } }) + [NB.running?] }"
      assert_equal "[Slow, Slow, Slow, true]\n", ruby(script)
    end
  end

  # On Ruby 3.1, RubyGems autoloads a part of its own for this, under its monitor.
  def test_bundler_can_be_required
    assert_equal ruby('require "bundler"; p Bundler::VERSION'),
                 ruby('NB.run { require "bundler"; p Bundler::VERSION }')
  end

  def test_an_autoloaded_file_is_loaded_by_the_fiber_that_names_it
    Dir.mktmpdir do |folder|
      File.write("#{folder}/names.rb", <<~RUBY)
        Names = [Thread.current[:name], LOCK.mon_owned?, LOCK.synchronize { 1 }]
        Thread.current[:name] = :after
      RUBY
      script = "require 'monitor'; LOCK = Monitor.new; autoload :Names, '#{folder}/names.rb'; " \
               "all = -> { Thread.current[:name] = :before; " \
               "p LOCK.synchronize { Names } + [Thread.current[:name]] }; "
      assert_equal "[:before, true, 1, :after]\n", ruby("#{script} NB.run(&all)")
      assert_equal ruby("#{script} all.call"), ruby("#{script} NB.run(&all)")
    end
  end

  # Each strikes where RubyGems looks for the file; the second in the blocking fiber of an autoload.
  def test_what_interrupts_a_require_leaves_it_to_others
    ['require "nothing"', "Nothing"].each do |line|
      script = <<~RUBY
        require "timeout"
        autoload :Nothing, "nothing"
        owner, name = Gem::Specification.singleton_class, :unresolved_deps
        original = owner.instance_method(name)
        slow = false
        owner.alias_method(name, name)
        owner.define_method(name) { 10_000.times { } while slow; original.bind_call(self) }
        NB.run do
          slow = true
          NB.async { Timeout.timeout(0.05) { #{line} } rescue puts("struck: \#{$!.class}") }.wait
          slow = false
          Timeout.timeout(5) { require "weakref" }
          puts "loaded: \#{NB.async { require "weakref"; WeakRef }.value}"
        end
      RUBY
      assert_match(/^struck: Timeout::Error\nloaded: WeakRef\Z/, ruby(script), line)
    end
  end

  AUTOLOADS = <<~'RUBY'
    module Plan
      def plan(name) = autoload(name, "/nowhere/#{name}")
      def plan_by_kernel(name) = Kernel.autoload(name, "/nowhere/#{name}")
    end
    class Planner
      include Plan
      def Planner.plan(name) = module_eval { autoload(name, "/nowhere/#{name}") }
      def Planner.plan_from_outside(name) = module_eval("autoload(:#{name}, '/nowhere/#{name}')")
    end
    Planner.new.plan(:A)
    Planner.new.plan_by_kernel(:B)
    Planner.plan(:C)
    Planner.plan_from_outside(:D)
    autoload :E, "/nowhere/E"
    Object.new.instance_eval { autoload :F, "/nowhere/F" } rescue p $!.class
    p [Plan, Planner, Object].product(%i[A B C D E F]).map { |place, name| place.autoload?(name, false) }
  RUBY

  def test_an_autoload_is_set_up_where_it_would_be
    assert_equal ruby(AUTOLOADS), ruby("NB.run { }; #{AUTOLOADS}")
  end

  def test_outside_of_a_loop_they_are_the_originals
    script = "r, w = IO.pipe; w << 1; p IO.select([r], nil, nil, 0)&.first&.size, " \
             "Thread.new { sleep }.join(0.01), r.close, (r.read rescue p($!.class))"

    assert_equal ruby(script), ruby("NB.run { }; #{script}")
  end

  # What each repaired method does in another Ractor.
  IN_A_RACTOR = [
    # First: plain Ruby 3.4 may crash (EINVAL) if it forks while a thread of another Ractor ends.
    "(Process.wait2(fork { exit!(0) }).last.exitstatus rescue $!.message)",
    'File.open("/etc/passwd") { |file| file.gets.size.positive? }', "Thread.new { 1 }.value", "Thread.start { 1 }.value",
    "Thread::Mutex.new.then { |mutex| mutex.lock && [mutex.sleep(0.001)].size }", "IO.select([], [], [], 0)",
    "IO.pipe.map(&:close).size", "Thread.new { sleep }.join(0.01)", 'File.open("/dev/null") { |file| file.flock(File::LOCK_EX) }',
    'IO.pipe.then { |r, w| w.syswrite("x") && r.sysread(1) }', 'File.open("/dev/zero") { |file| file.pread(3, 0) }',
    'Addrinfo.getaddrinfo("127.0.0.1", 80).size.positive?', 'Socket.sockaddr_in(80, "127.0.0.1").size',
    'Addrinfo.tcp("127.0.0.1", 80).ip_port', 'TCPServer.new("127.0.0.1", 0).then { |s| TCPSocket.new("127.0.0.1", s.addr[1]).class }',
    'UDPSocket.new.tap { |socket| socket.bind("127.0.0.1", 0) }.class', 'Object.autoload(:Nothing, "/tmp/nothing.rb")',
    "UNIXSocket.pair.map(&:close_write)", 'UNIXSocket.pair.then { |a, b| a.send("x", 0) && b.recv(1) }',
    'UNIXSocket.pair.then { |a, b| a.write_nonblock("x") && b.read_nonblock(1) }', 'IO.pipe.then { |r, w| w.write_nonblock("x") && r.read_nonblock(1) }',
    'UDPSocket.new.send("x", 0, "127.0.0.1", 9)', 'TCPServer.new("127.0.0.1", 0).accept_nonblock(exception: false)',
    'File.open("/dev/null") { |file| file.reopen("/dev/zero").read(1) }', "select([], [], [], 0)",
    "Fiber.new { Fiber.yield rescue $!.class }.tap(&:resume).raise(ArgumentError)", "Thread.handle_interrupt(RuntimeError => :never) { 1 }",
    "Thread.new { sleep }.tap { |t| Thread.pass until t.stop?; t.wakeup; t.join }.alive?",
    "Thread.new { sleep }.tap { |t| Thread.pass until t.stop?; t.run; t.join }.alive?"
  ].freeze

  def test_other_ractors_have_the_originals
    each = "#{IN_A_RACTOR}.each { |code| ractor = Ractor.new(code) { |c| eval(c) rescue $!.full_message }; " \
           "puts \"\#{code} => \#{ractor.#{Ractor.method_defined?(:value) ? :value : :take}.inspect}\" }"
    expected, = Open3.capture2e(RbConfig.ruby, "-W0", "-rsocket", "-e", each)

    assert_equal expected, ruby("$VERBOSE = nil; NB.run { }; #{each}").sub(/.*experimental.*\n/, "")
  end

  def test_another_ractor_is_told_that_it_cannot_run_a_loop
    result = Ractor.method_defined?(:value) ? :value : :take
    output = ruby("$VERBOSE = nil; block = 'begin; NB.run { 1 }; rescue => e; [e.class, e.message]; end'; " \
                  "p Ractor.new(block) { |code| eval(code) }.#{result}")

    assert_match(/Ractor::IsolationError, "a loop runs only in the main Ractor; .*NB.in_process/, output)
  end

  def test_another_ractor_has_blocking_fibers
    result = Ractor.method_defined?(:value) ? :value : :take
    script = "$VERBOSE = nil; p Ractor.new { Fiber.new { NB.blocking { Fiber.current.blocking? } }.resume }.#{result}"

    assert_match(/^true$/, ruby(script))
  end

  def test_a_loop_runs_without_rubygems
    output, status = Open3.capture2e(RbConfig.ruby, "--disable-gems", "-Ilib", "-e",
                                     "require 'neverblock'; print NB.run { sleep 0.001; :done }")
    assert_predicate status, :success?, output
    assert_equal "done", output
  end
end
