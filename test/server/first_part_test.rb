# frozen_string_literal: true

# rubocop:disable Layout/LineLength -- a script or an expectation each, better on one line

require_relative "one_response"

# What fails before any byte of the response is sent can still be answered by a status.
class ServerFirstPartTest < Minitest::Test
  include OneResponse

  FAIL_AT_ONCE = [->(_out) { raise "oops" }, ->(out) { out.call(1) }, ->(out) { out.call("") || out.call(nil) }].freeze

  # Nothing of it is sent: Puma answers 500, too.
  def test_a_body_that_fails_before_its_first_part
    FAIL_AT_ONCE.product([{}, {"content-length" => "3"}, {"connection" => "close"}], ["GET / HTTP/1.1\r\n", "GET / HTTP/1.0\r\nConnection: keep-alive\r\n"]).each do |each, headers, line|
      body = Body.new(&each)
      answer, second = after([200, headers, body], line)
      assert_match(/\AHTTP\/1.1 500 [^\r]*\r\n(?:[^\r]+\r\n)+\r\nInternal server error\.\n(?:\z|HTTP\/1.1 200 )/, answer)
      refute_match(/HTTP\/1.1 200.*HTTP\/1.1 500/m, answer)
      assert_equal headers.empty? ? line.include?("1.1") : headers.key?("content-length"), second
      refute_empty @log.string
      assert_equal 1, body.closed
    end
  end

  def test_a_body_that_is_too_short_or_too_long_from_the_start
    [->(_out) {}, ->(out) { out.call("abcd") }].each do |each|
      answer, second = after([200, {"content-length" => "3"}, Body.new(&each)])
      assert_match(/\AHTTP\/1.1 500 .*connection: close\r\n\r\nInternal server error\.\n\z/m, answer)
      refute second
    end
  end

  def test_a_stream_that_fails_before_its_first_part
    answer, second = after([200, {}, ->(_out) { raise "oops" }])
    assert_match(/\AHTTP\/1.1 500 .*Internal server error\.\nHTTP\/1.1 200 /m, answer)
    assert second
  end

  # A client of HTTP/1.0 does not get this coding, which is malformed.
  def test_its_own_framing_lacks_all_of_it
    answer, second = after([200, {"transfer-encoding" => "chunked"}, []], "GET / HTTP/1.0\r\nConnection: keep-alive\r\n")
    assert_match(/\AHTTP\/1.1 500 .*connection: close\r\n\r\nInternal server error\.\n\z/m, answer)
    refute second
  end

  # Whatever waits after the failure: the log, and the body's close.
  def test_a_body_that_fails_where_its_report_and_its_close_wait
    log = Struct.new(:text) { def write(words) = sleep(0.01) && text << words }.new(+"")
    bodies = {"/raises" => [{}, Body.new { raise "oops" }], "/short" => [{"content-length" => "3"}, Body.new {}]}
    bodies.each_value { |_, body| def body.close = sleep(0.01) && super }
    serve(log: log) { |env| [200, *bodies.fetch(env["PATH_INFO"])] }
    bodies.each_key { |path| assert_match(/\AHTTP\/1.1 500 .*\r\n\r\nInternal server error\.\n\z/m, get(path)) }
    assert_equal ["oops", "the body is 3 bytes shorter"], log.text.scan(/oops|the body is 3 bytes shorter/)
  end

  # The head is with the client already, so the end of the chunks is what is missing.
  def test_a_body_that_fails_after_it_has_waited
    body = Body.new { |_out| sleep(0.01) && raise("oops") }
    answer, second = after([200, {}, body])
    assert_match(/\AHTTP\/1.1 200 .*\r\n\r\n\z/m, answer)
    refute second
    assert_equal 1, body.closed
  end

  # A pipelined response is before it, which the client still gets.
  def test_a_body_that_fails_behind_another_response
    serve { |env| [200, {}, env["PATH_INFO"] == "/1" ? Body.new { |out| out.call("first") } : Body.new { raise "oops" }] }
    socket = connect
    socket.write("GET /1 HTTP/1.1\r\n#{HOST}\r\nGET /2 HTTP/1.1\r\n#{HOST}\r\nGET /1 HTTP/1.1\r\n#{HOST}\r\n")
    assert_equal [[200, "first"], [500, "Internal server error.\n"], [200, "first"]], Array.new(3) { read_response(socket).to_a.values_at(0, 2) }
  end
end
# rubocop:enable Layout/LineLength
