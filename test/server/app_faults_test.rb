# frozen_string_literal: true

# rubocop:disable Layout/LineLength -- a script or an expectation each, better on one line

require_relative "one_response"
require "tempfile"
require "tmpdir"

# More of what applications do wrong: each answer is defined, bodies are closed once, and the server
# goes on.
class ServerAppFaultsTest < Minitest::Test
  include OneResponse

  # As a database connection that the request has kept, while the database is away.
  def test_what_cannot_be_given_back_leaves_nothing_in_the_fiber
    calls = 0
    serve(fibers: 1) do
      seen = [Fiber.current.instance_variable_get(:@mine), Thread.current[:mine], (Fiber[:mine] if Fiber.respond_to?(:[]))]
      Fiber.current.instance_variable_set(:@mine, 1)
      Thread.current[:mine] = 1
      Fiber[:mine] = 1 if Fiber.respond_to?(:[])
      NB::FiberState.at_end(:first) { raise "cannot be given back" }
      NB::FiberState.at_end(:second) { calls += 1 }
      [200, {}, [seen.compact.inspect]]
    end
    3.times { assert_match(/\r\n\r\n\[\]\z/, get) }
    eventually { @log.string.scan("cannot be given back").size == 3 }
    assert_equal 3, calls
  end

  NO_RESPONSE = {
    "a String as body" => [200, {}, "text"], "nil as headers" => [200, nil, []], "a Symbol as headers" => [200, :none, []],
    "a body without each" => [200, {}, Object.new], "a name with a colon" => [200, {"a:b" => "c"}, []],
    "a name with a blank" => [200, {"a b" => "c"}, []], "an empty name" => [200, {"" => "c"}, []], "a NUL in a value" => [200, {"a" => "b\0c"}, []],
    "a status of four digits" => [2000, {}, []], "an interim status" => [103, {}, []],
    "a switch without a callable" => [101, {}, ["abc"]], "a negative status" => [-200, {}, []], "two Content-Lengths" => [200, {"content-length" => "3\n3"}, ["abc"]],
    "a length with a sign" => [200, {"content-length" => "+3"}, ["abc"]], "no length at all" => [200, {"content-length" => ""}, ["abc"]],
    "an Array with an Integer" => [200, {}, ["a", 1]], "two lengths" => [200, {"content-length" => %w[3 4]}, ["abcd"]],
    "no status" => [nil, {}, Body.new { |out| out.call("abc") }], "a status that is no number" => [Object.new, {}, Body.new { |out| out.call("abc") }],
    "a low status" => [99, {}, Body.new { |out| out.call("abc") }]
  }.freeze

  NO_RESPONSE.each do |name, response|
    define_method("test_500_#{name.downcase.tr(" ", "_")}") do
      answer, second = after(response)
      assert_match(/\AHTTP\/1.1 500 /, answer)
      assert second, answer
      refute_empty @log.string
      assert_equal 1, response[2].closed if response[2].is_a?(Body)
    end
  end

  def test_headers_that_are_no_strings
    answer, second = after([200, {"x-number" => 5, "x-symbol" => :a, "x-nil" => nil, "x-many" => %w[a b]}, ["ok"]])
    assert second, answer
    assert_match(/\AHTTP\/1.1 (200|500) /, answer)
  end

  # A body that has a path need not be a file there: its each tells.
  def test_a_path_without_a_file
    ["/nonexistent/file", "/tmp"].each do |path|
      body = Struct.new(:to_path) { def each = yield "its own" }.new(path)
      answer, second = after([200, {}, body])
      assert_match(/\AHTTP\/1.1 200 .*7\r\nits own\r\n0\r\n\r\n/m, answer)
      assert second
    end
  end

  # Wrappers answer to to_path whatever they wrap.
  # A File that was made without a name, such as by O_TMPFILE.
  def test_a_file_without_a_name
    open = -> { File.for_fd(IO.sysopen(__FILE__)) }
    serve { [200, {}, open.call] }
    2.times { assert_equal File.read(__FILE__), read_response(ask("GET")).body }
    assert_equal 200, read_response(ask("HEAD"), head: true).status
    assert_equal "", @log.string
  end

  def ask(method) = connect.tap { |socket| socket.write("#{method} / HTTP/1.1\r\n#{HOST}\r\n") }

  def test_no_path
    body = Struct.new(:to_path) { def each = yield "its own" }.new(nil)
    answer, second = after([200, {}, body])
    assert_match(/\AHTTP\/1.1 200 .*7\r\nits own\r\n0\r\n\r\n/m, answer)
    assert second
  end

  def test_an_array_that_can_be_closed
    closed = []
    body = Class.new(Array) { define_method(:close) { closed << :class } }.new(["ok"])
    own = ["ok"].tap { |array| array.define_singleton_method(:close) { closed << :own } }
    [body, own].each { |array| assert_match(/ok/, after([200, {}, array]).first) }
    assert_equal %i[class own], closed
  end

  def test_a_status_that_takes_the_response_apart
    answer, second = after(lambda do |_env|
      response = []
      status = Object.new
      status.define_singleton_method(:to_i) { response.replace([nil]) && GC.start && 200 || 200 }
      response.push(status, {"a" => "b"}, ["whole"], *Array.new(100, "more"))
    end)
    assert_match(/\AHTTP\/1.1 200 .*^a: b\r\n.*whole/m, answer)
    assert second
  end

  def test_an_env_whose_default_raises
    answer, second = after(lambda do |env|
      %w[rack.after_reply rack.response_finished].each { |key| env.delete(key) }
      env.default_proc = ->(_hash, key) { raise KeyError, key }
      [200, {}, ["ok"]]
    end)
    assert_match(/\AHTTP\/1.1 200 .*ok/m, answer)
    assert second
  end

  # To some clients it is the field without that byte.
  ["content-length\t", "transfer-encoding\v", "a\x7f", "\u00e9", "a(b)"].each do |name|
    define_method("test_500_the_name_#{name.dump}") do
      answer, second = after([200, {name => "5"}, ["abc"]])
      assert_match(/\AHTTP\/1.1 500 /, answer)
      assert second
    end
  end

  def test_values_that_end_with_a_line_feed
    answer, = after([200, {"a" => "b\n", "c" => "d\ne\n", "f" => ""}, ["ok"]])
    assert_equal ["a: b", "c: d", "c: e", "f: "], answer[/.*?\r\n\r\n/m].scan(/^[acf]: ?[^\r]*/)
  end

  def test_a_coding_where_none_may_be
    coded = {"transfer-encoding" => "chunked"}
    serve(early_hints: true) do |env|
      env["rack.early_hints"].call({"link" => "a", **coded})
      [204, coded, []]
    end
    refute_match(/transfer-encoding/i, get)
  end

  # Bytes that are no text, and a method's name that is: together they were no String.
  def test_an_error_in_bytes
    klass = Class.new { class_eval("def gr\u00f6\u00dfe = raise(\"\\xff\".b)", __FILE__, __LINE__) }
    answer, = after(->(_env) { klass.new.public_send("gr\u00f6\u00dfe") })
    assert_match(/\AHTTP\/1.1 500 /, answer)
    assert_match(/RuntimeError: \\xff.*gr\u00f6\u00dfe/m, @log.string.dup.force_encoding("UTF-8"))
  end

  def test_a_path_of_a_pipe_is_not_opened
    Dir.mktmpdir do |folder|
      File.mkfifo(path = "#{folder}/pipe")
      body = Struct.new(:to_path) { def each = yield "its own" }.new(path)
      answer = Timeout.timeout(60) { after([200, {}, body]).first }
      assert_match(/7\r\nits own\r\n0\r\n\r\n/, answer)
      assert_raises(Errno::ENXIO) { File.open(path, File::WRONLY | File::NONBLOCK) }
    end
  end

  # Rack 2's HeaderHash is one, too.
  def test_headers_of_a_kind_with_its_own_each
    headers = Class.new(Hash) { def each = yield("x-own", "1") }.new
    answer, second = after([200, headers.merge!("x-kept" => "2"), ["ok"]])
    assert_equal ["1", nil], [answer[/^x-own: (.*)\r/, 1], answer[/^x-kept: (.*)\r/, 1]]
    assert second
  end

  def test_headers_that_are_pairs
    answer, second = after([200, [%w[a b]], ["ok"]])
    assert_match(/^a: b\r\n/, answer)
    assert second
  end

  def test_an_error_whose_message_raises
    broken = Class.new(StandardError) { def message = raise("no message") }
    answer, second = after(->(_env) { raise broken })
    assert_match(/\AHTTP\/1.1 500 /, answer)
    assert second
    assert_match(/its message raises RuntimeError/, @log.string)
  end

  def test_what_is_frozen
    answer, second = after([200, {"a" => "b"}.freeze, ["ok"].freeze].freeze)
    assert_match(/\AHTTP\/1.1 200 .*ok/m, answer)
    assert second
  end

  def test_no_body_where_none_may_be
    [[204, {"content-length" => "3"}, Body.new { |out| out.call("abc") }], [304, {}, Body.new { |out| out.call("abc") }]].each do |response|
      answer, second = after(response)
      refute_includes answer, "abc"
      assert second, answer
      assert_equal 1, response[2].closed
    end
    body = Body.new { |out| out.call("abc") }
    answer, second = after([200, {}, body], "HEAD / HTTP/1.1\r\n")
    refute_includes answer, "abc"
    assert second
    assert_equal 1, body.closed
  end

  # Nobody checks it, so nothing comes after it.
  def test_its_own_framing
    ["3\r\nabc\r\n0\r\n\r\n", "wrong"].each do |body|
      answer, second = after([200, {"transfer-encoding" => "chunked", "content-length" => "5"}, [body]])
      assert_equal ["transfer-encoding"], answer.scan(/^transfer-encoding|^content-length/i)
      assert_match(/^connection: close\r\n\r\n#{body}\z/, answer)
      refute second
    end
  end

  # RFC 9110 15.3.6; Net::HTTP takes what follows the head for the next response.
  def test_a_reset_content_has_none
    [["abc"], Body.new { |out| out.call("abc") }, ->(out) { out.write("abc") }].product([{}, {"content-length" => "3"}, {"transfer-encoding" => "chunked"}]).each do |body, headers|
      answer, second = after([205, headers, body])
      assert_match(/\AHTTP\/1.1 205 Reset Content\r\ncontent-length: 0\r\n(date: [^\r]*\r\n)\r\nHTTP\/1.1 200 OK/, answer)
      assert second
    end
  end

  def test_a_message_forges_no_entry
    answer, = after(->(_env) { raise "first\n2026-01-01T00:00:00Z GET / forged\r\e[2J\u009b" })
    assert_match(/\AHTTP\/1.1 500 /, answer)
    assert_includes @log.string, "RuntimeError: first\n    2026-01-01T00:00:00Z GET / forged\\x0d\\x1b[2J\\x9b\n    "
    refute_match(/^2026-01-01/, @log.string)
  end

  CODED = {"transfer-encoding" => "chunked", "content-length" => "3"}.freeze
  OLD = "GET / HTTP/1.0\r\nConnection: keep-alive\r\n"
  CHUNKS = ["1;x=y\r\na\r", "\n2\r\nbc", "\r\n4e20\r\n#{"d" * 20_000}\r\n0\r\nT: u\r\n\r\n"].freeze

  # RFC 9112 6.1: a client of HTTP/1.0 must not get a transfer coding.
  {"an_array" => CHUNKS, "each" => CHUNKS.each, "a_stream" => ->(out) { CHUNKS.each { |part| out << part }.then { out.close } }}.each do |kind, body|
    define_method("test_its_own_framing_before_1_1_#{kind}") do
      answer, second = after([200, CODED, body], OLD)
      refute_match(/^(transfer-encoding|content-length)/i, answer)
      assert_match(/^connection: close\r\n\r\nabcd{20000}\z/, answer)
      refute second
    end
  end

  # Nothing but a reset tells that a part is missing.
  {"its end" => ["3\r\nabc\r\n"], "a byte" => ["3\r\nab"], "its framing" => ["abc"], "nothing" => ["3\r\nabc\r\n0\r\n\r\nx"]}.each do |what, parts|
    define_method("test_its_own_framing_before_1_1_lacks_#{what.tr(" ", "_")}") do
      serve { [200, CODED, parts] }
      socket = connect
      socket.write("#{OLD}\r\n")
      assert_raises(Errno::ECONNRESET) { Timeout.timeout(60) { socket.read } }
      assert_match(/ArgumentError: the body (is not in chunks|has no last chunk|continues)/, @log.string)
    end
  end

  def test_a_coding_that_is_not_chunked_before_1_1
    [{"transfer-encoding" => "gzip"}, {"transfer-encoding" => "gzip, chunked"}, {"transfer-encoding" => %w[chunked chunked]},
     CODED.merge("rack.hijack" => ->(io) { io.close })].each do |headers|
      answer, second = after([200, headers, ["abc"]], OLD)
      assert_match(/\AHTTP\/1.1 500 /, answer)
      refute second
    end
  end

  def test_its_own_framing_of_no_body_before_1_1
    answer, = after([200, CODED, CHUNKS], OLD.sub("GET", "HEAD"))
    assert_match(/\AHTTP\/1.1 200 OK\r\ndate: [^\r]*\r\nconnection: close\r\n\r\n\z/, answer)
  end

  # Only 101 changes the protocol (RFC 9110 7.8): every other answer is framed as without the offer.
  def test_an_upgrade_that_is_only_offered
    parts = Body.new { |out| %w[one two].each(&out) }
    stream = ->(out) { out.write("one", "two") && out.close }
    [%w[one two], parts, stream, File.new(__FILE__)].each do |body|
      serve { |env| env["PATH_INFO"] == "/second" ? [200, {}, ["second"]] : [200, {"connection" => "Upgrade", "upgrade" => "h2,h2c"}, body] }
      socket = connect
      socket.write("GET / HTTP/1.1\r\n#{HOST}\r\nGET /second HTTP/1.1\r\n#{HOST}\r\n")
      first = read_response(socket)
      assert_equal [body.is_a?(File) ? File.read(__FILE__) : "onetwo", "upgrade"], [first.body, first.headers["connection"]]
      assert_equal "second", read_response(socket).body
    end
  end

  def test_an_upgrade_is_offered_beside_the_end
    parts = Body.new { |out| %w[one two].each(&out) }
    answer, second = after([200, {"connection" => "upgrade", "upgrade" => "h2"}, parts], "GET / HTTP/1.0\r\nConnection: keep-alive\r\n")
    assert_match(/^connection: upgrade, close\r\n\r\nonetwo\z/, answer)
    refute second
  end

  def test_a_hijack_that_raises_closes_its_socket
    [[200, {"rack.hijack" => ->(_io) { raise "oops" }}, []], [101, {"upgrade" => "x", "connection" => "upgrade"}, ->(_io) { raise "oops" }]].each do |response|
      answer, second = after(response)
      assert_match(/\AHTTP\/1.1 #{response[0]} .*\r\n\r\n\z/m, answer)
      refute second
      assert_match(/oops/, @log.string)
    end
  end

  def test_it_asks_to_close
    answer, second = after([200, {"connection" => "close"}, ["ok"]])
    assert_match(/connection: close\r\n/i, answer)
    refute second
  end

  def test_closed_once_when_it_raises_in_the_middle
    body = Body.new { |out| [out.call("a"), raise("oops")] }
    answer, second = after([200, {}, body])
    assert_match(/1\r\na\r\n\z/, answer)
    refute second
    assert_equal 1, body.closed
  end

  def test_closed_once_when_the_client_goes
    body = Body.new { |out| 10_000.times { out.call("x" * 10_000) && sleep(0.001) } }
    serve { |_env| [200, {}, body] }
    socket = connect
    socket.write("GET / HTTP/1.1\r\n#{HOST}\r\n")
    socket.readpartial(1000)
    Reset.close(socket)
    eventually { body.closed == 1 }
    eventually { @server.stats[:connections].zero? }
    assert_equal "", @log.string
  end

  # Rack::Files says the length itself; who downloads a file in parts asks for it first.
  def test_head_gets_the_size_of_a_file
    Tempfile.create("size") do |file|
      file.write("x" * 30)
      file.flush
      [[{}, "30"], [{"content-length" => "20"}, "20"]].each do |headers, size|
        answer, second = after([200, headers, File.open(file.path)], "HEAD / HTTP/1.1\r\n")
        assert_equal size, answer[/\A.*?^content-length: (\d+)/m, 1]
        assert second
      end
    end
    answer, second = after([304, {}, File.open(__FILE__)], "HEAD / HTTP/1.1\r\n")
    assert_match(/\AHTTP\/1.1 304 (?:(?!content-length)[^\r]*\r\n)+\r\nHTTP/, answer)
    assert second
  end

  def test_a_file_that_shrinks
    Tempfile.create("shrinks") do |file|
      file.write("x" * 30_000_000)
      file.flush
      serve { |env| env["PATH_INFO"] == "/" ? [200, {}, File.open(file.path)] : [200, {}, ["ok"]] }
      socket = connect
      socket.write("GET / HTTP/1.1\r\n#{HOST}\r\n")
      socket.readpartial(1000)
      file.truncate(10)
      assert_operator Timeout.timeout(60) { socket.read.bytesize }, :<, 30_000_000
      assert_match(/ok\z/, get("/2"))
    end
  end

  def test_an_endless_recursion
    deep = lambda { |n| deep.call(n + 1) + 1 }
    answer, second = after(->(_env) { deep.call(0) })
    assert_match(/\AHTTP\/1.1 500 /, answer)
    assert second
    assert_match(/SystemStackError/, @log.string)
  end

  STREAMS = {
    "raises" => ->(stream) { stream.write("part") && raise("oops") },
    "writes no String" => ->(stream) { stream.write("part") && stream.write(Object.new.tap { |o| o.singleton_class.undef_method(:to_s) }) },
    "writes after close" => ->(stream) { stream.write("part") && stream.close && stream.write("more") }
  }.freeze

  STREAMS.each do |name, stream|
    define_method("test_a_stream_that_#{name.tr(" ", "_")}") do
      answer, = after([200, {}, stream])
      assert_match(/\AHTTP\/1.1 200 .*4\r\npart\r\n/m, answer)
      refute_includes answer, "more"
      refute_empty @log.string unless name == "writes after close"
    end
  end

  # Rack lets a stream live on in another fiber, so nobody can tell: it ends with the server.
  def test_a_stream_that_nobody_closes
    serve(drain_timeout: 0.1) { |env| env["PATH_INFO"] == "/" ? [200, {}, ->(stream) { stream.write("part") }] : [200, {}, ["ok"]] }
    socket = connect
    socket.write("GET / HTTP/1.1\r\n#{HOST}\r\n")
    read_head(socket)
    assert_equal "4\r\npart\r\n", Timeout.timeout(60) { socket.read(9) }
    assert_match(/ok\z/, get("/2"))
    @server.stop
    assert_equal "", Timeout.timeout(60) { socket.read }
  end

  def read_head(socket)
    Timeout.timeout(60) { socket.gets("\r\n\r\n") }
  end

  def test_env_torn_apart
    answer, second = after(->(env) { env.clear && [200, {}, ["ok"]] })
    assert_match(/\AHTTP\/1.1 200 .*ok/m, answer)
    assert second
  end

  def test_a_response_finished_that_raises
    answer, second = after(lambda do |env|
      env["rack.response_finished"] << ->(*) { raise "late" }
      [200, {}, ["ok"]]
    end)
    assert_match(/\AHTTP\/1.1 200 /, answer)
    assert second
    assert_match(/late/, @log.string)
  end

  # The connection is closed without a byte.
  def assert_no_answer
    socket = connect
    socket.write("GET / HTTP/1.1\r\n#{HOST}\r\n")
    assert_empty socket.read
  end

  # @param statuses [Array] what Thread#status says of a thread that was killed, and of one that raised
  def assert_ended(statuses = [false])
    _, thread = @servers.pop
    assert thread.join(60), "the thread goes on"
    assert_includes statuses, thread.status
  end

  # As in plain Ruby: the thread of the loop is the one that calls the application.
  def test_Thread_exit_ends_the_thread
    serve { Thread.exit }
    assert_no_answer
    assert_ended
  end

  # What the callbacks raise, or rescue, does not make another end of it.
  LATE = {"raises" => -> { raise "late" }, "rescues" => -> { Integer("x") rescue 0 }}.freeze # rubocop:disable Style/RescueModifier

  LATE.each do |name, late|
    define_method("test_Thread_exit_ends_the_thread_though_after_reply_#{name}") do
      serve { |env| (env["rack.after_reply"] << late) && Thread.exit }
      assert_no_answer
      assert_ended
    end

    define_method("test_a_kill_of_the_fiber_ends_its_request_alone_though_after_reply_#{name}") do
      skip "before Ruby 3.3, fibers cannot be killed" unless Fiber.method_defined?(:kill)
      serve do |env|
        next [200, {}, ["ok"]] if env["PATH_INFO"] == "/2"

        (env["rack.after_reply"] << late) && Fiber.current.kill
      end
      assert_no_answer
      assert_match(/ok\z/, get("/2"))
    end
  end

  # Nor is a signal lost that strikes when the response is out.
  ENDINGS = {"kill" => -> { Thread.exit }, "signal" => -> { raise Interrupt }}.freeze
  AFTER = {
    "after_reply" => ->(ending, _) { ->(env) { (env["rack.after_reply"] << ending) && [200, {}, ["ok"]] } },
    "response_finished" => ->(ending, _) { ->(env) { (env["rack.response_finished"] << ->(*) { ending.call }) && [200, {}, ["ok"]] } },
    "access_log" => lambda { |ending, options|
      options[:access_log] = Object.new.tap { |log| log.define_singleton_method(:write) { |*| ending.call } }
      ->(_) { [200, {}, ["ok"]] }
    },
    "log" => lambda { |ending, options|
      options[:log] = Object.new.tap { |log| log.define_singleton_method(:write) { |*| ending.call } }
      ->(_) { raise "oops" }
    }
  }.freeze

  AFTER.each_key do |place|
    ENDINGS.each do |name, ending|
      define_method("test_a_#{name}_in_#{place}_ends_the_thread") do
        options = {}
        serve(AFTER[place].call(ending, options), **options)
        assert_match(/\AHTTP\/1.1 [25]00 /, get)
        assert_ended([false, nil])
      end
    end
  end
end
# rubocop:enable Layout/LineLength
