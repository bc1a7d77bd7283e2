# frozen_string_literal: true

# rubocop:disable Layout/LineLength -- a script or an expectation each, better on one line

require_relative "helper"
require "neverblock"
require_relative "../support/subprocess"

# Full collections of garbage where no request runs: collect_when_idle.
class CollectionsTest < Minitest::Test
  include ServerTest

  SETTABLE = GC.respond_to?(:config)
  NEEDED = "needs Ruby 3.4"

  # Keeps more with each request: sooner or later Ruby has to look at all of it.
  HOARD = <<~'RUBY'
    require "neverblock/server"
    require "socket"
    kept = []
    inside = 0
    app = lambda do |_env|
      before = GC.stat(:major_gc_count)
      2000.times { kept << [+"kept"] }
      inside += GC.stat(:major_gc_count) - before
      [200, {}, ["ok"]]
    end
    server = NB::Server.new(app, bind: "tcp://127.0.0.1:0", collect_when_idle: ENV["COLLECT"] == "on")
    started = Thread::Queue.new
    thread = Thread.new { server.run { started << true } }
    started.pop
    before = GC.stat(:major_gc_count)
    socket = TCPSocket.new("127.0.0.1", server.port)
    requests = 0
    while GC.stat(:major_gc_count) < before + 2 && requests < 2000
      socket.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
      nil until socket.gets == "\r\n"
      socket.read(2)
      requests += 1
    end
    puts "#{requests < 2000} #{inside}"
    server.stop
    thread.join
  RUBY

  def test_none_is_done_inside_of_a_request
    skip NEEDED unless SETTABLE
    enough, inside = hoard("off").split
    assert_equal "true", enough
    assert_operator Integer(inside), :>, 0, "this test shows nothing"
    assert_equal "true 0", hoard("on").chomp
  end

  def hoard(word)
    result = Subprocess.ruby(HOARD, env: {"COLLECT" => word}, limit: 60)
    assert_equal "", result.err
    result.out
  end

  def test_requests_that_wait_do_not_prevent_it_for_long
    skip NEEDED unless SETTABLE
    go_on = Thread::Queue.new
    hoard = []
    serve(collect_when_idle: true) do |env|
      next go_on.pop if env["PATH_INFO"] == "/wait"

      2000.times { hoard << [+"kept"] }
      [200, {}, ["ok"]]
    end
    waiting = connect
    waiting.write("GET /wait HTTP/1.1\r\n#{HOST}\r\n")
    ask_until_collected(connect)
    go_on << [200, {}, ["waited"]]
    assert_equal "waited", read_response(waiting).body
  end

  def ask_until_collected(socket)
    before = GC.stat(:major_gc_count)
    Timeout.timeout(60) do
      while GC.stat(:major_gc_count) == before
        socket.write("GET / HTTP/1.1\r\n#{HOST}\r\n")
        assert_equal 200, read_response(socket).status
      end
    end
  end

  def test_earlier_versions_are_refused
    skip "this one can" if SETTABLE
    error = assert_raises(ArgumentError) { NB::Server.new(HELLO, collect_when_idle: true) }
    assert_match(/\Acollect_when_idle: needs Ruby 3.4 .*, this is #{RUBY_VERSION}: leave it off\z/, error.message)
  end

  # The memory for objects may grow by a quarter, then it is done whatever else runs.
  def test_a_loop_that_never_rests_gets_them_too
    skip NEEDED unless SETTABLE
    NB.run do
      collections = NB::Server::Collections.new
      collections.start
      before = GC.stat(:major_gc_count)
      kept = []
      enough = GC.stat(:heap_allocated_pages) * 2
      Timeout.timeout(60) do
        while GC.stat(:major_gc_count) == before
          few = Array.new(2000) { +"kept" }
          kept << few if GC.stat(:heap_allocated_pages) < enough
          Fiber.scheduler.yield
        end
      end
      assert_operator GC.stat(:major_gc_count), :>, before
      collections.stop
    end
  end

  def test_the_setting_is_given_back
    skip NEEDED unless SETTABLE
    [true, false].each do |own|
      GC.config(rgengc_allow_full_mark: own)
      servers = Array.new(2) { serve(->(*) { [200, {}, [allowed?.to_s]] }, collect_when_idle: true) }
      assert_equal "false", get[/\S+\z/]
      stop(servers.first)
      assert_equal "false", get[/\S+\z/], "another server runs"
      stop(servers.last)
      assert_equal own, allowed?
    end
  ensure
    GC.config(rgengc_allow_full_mark: true) if SETTABLE
  end

  def test_a_server_that_ends_by_an_exception_gives_it_back_too
    skip NEEDED unless SETTABLE
    server = NB::Server.new(HELLO, bind: "tcp://127.0.0.1:0", log: nil, collect_when_idle: true)
    assert_raises(IOError) { server.run { raise IOError, "started" } }
    assert allowed?
  end

  def test_a_forked_child_collects_by_itself
    skip NEEDED unless SETTABLE
    serve(collect_when_idle: true) do
      IO.pipe do |reader, writer|
        child = fork { writer.write(allowed?.to_s) && exit!(true) }
        writer.close
        Process.wait(child)
        [200, {}, [reader.read, " ", allowed?.to_s]]
      end
    end
    assert_equal "true false", get[/^true.*|^false.*/]
  end

  private

  def allowed? = GC.config[:rgengc_allow_full_mark]

  def stop(server)
    server.stop
    thread = @servers.assoc(server).last
    assert thread.join(60)
    @servers.delete_if { |other, _| other.equal?(server) }
  end
end
# rubocop:enable Layout/LineLength
