# frozen_string_literal: true

# rubocop:disable Layout/LineLength -- a script or an expectation each, better on one line

require_relative "helper"

# RFC 9110 and 9112 on the wire: what is refused gets the right status and a closed connection.
class ServerStrictTest < Minitest::Test
  include ServerTest

  GET = "GET / HTTP/1.1\r\n"
  POST = "POST / HTTP/1.1\r\n#{HOST}".freeze
  CHUNKED = "#{POST}Transfer-Encoding: chunked\r\n\r\n".freeze
  REFUSED = {
    400 => [
      "\x16\x03\x01\x02\x00", "GET /\r\n\r\n", "GET / HTTP/1.1\n#{HOST}\r\n", "GET  / HTTP/1.1\r\n#{HOST}\r\n",
      "GET / http/1.1\r\n#{HOST}\r\n", "GET x HTTP/1.1\r\n#{HOST}\r\n", "GET /\0 HTTP/1.1\r\n#{HOST}\r\n",
      "GET /a#b HTTP/1.1\r\n#{HOST}\r\n", "GET http://u@h/ HTTP/1.1\r\n#{HOST}\r\n",
      "GET a:443 HTTP/1.1\r\n#{HOST}\r\n", "GET * HTTP/1.1\r\n#{HOST}\r\n", "#{GET}\r\n",
      "#{GET}#{HOST}#{HOST}\r\n", "#{GET}Host: a b\r\n\r\n", "#{GET}#{HOST}X : y\r\n\r\n",
      "#{GET}#{HOST}X: y\r\n z\r\n\r\n", "#{GET} X: y\r\n#{HOST}\r\n", "#{GET}#{HOST}X: a\0b\r\n\r\n",
      "#{GET}#{HOST}X: a\rb\r\n\r\n", "#{GET}#{HOST}X\r\n\r\n", "#{GET}Host: a\n\r\n",
      "#{POST}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
      "#{POST}Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!", "#{POST}Content-Length: +5\r\n\r\nhello",
      "#{POST}Content-Length: 5, 5\r\n\r\nhello", "#{POST}Content-Length:\r\n\r\n",
      "#{POST}Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello", "#{POST}Content-Length: 5 5\r\n\r\nhello",
      "#{POST}Content-Length: 0x5\r\n\r\nhello", "#{POST}Content-Length: -1\r\n\r\n", "#{POST}Content-Length: 5\t\r\n\r\nhello",
      "#{POST}Content_Length: 5\r\n\r\nhello", "#{POST}content_length: 5\r\nContent-Length: 5\r\n\r\nhello", "#{POST}TRANSFER_ENCODING: chunked\r\n\r\n0\r\n\r\n",
      "#{POST}Content-Length: 5;q=1\r\n\r\nhello", "#{POST}Content-Length: \u0665\r\n\r\nhello", "#{POST}Content-Length: 5.0\r\n\r\nhello",
      "#{POST}Content-Length : 5\r\n\r\nhello", "#{POST}Content-Length\r\n\r\n", "#{POST}Content-Length: 5\r\n 0\r\n\r\nhello",
      "#{POST}Transfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n0\r\n\r\n", "#{POST}Transfer-Encoding:\tchunked\r\n\r\n",
      "#{POST}Transfer-Encoding: , chunked\r\n\r\n", "#{POST}Transfer-Encoding: chunked,\r\n\r\n", "#{POST}Transfer-Encoding:\r\n\r\n",
      "#{POST}Transfer-Encoding: \vchunked\r\n\r\n", "#{POST}Transfer-Encoding: \"chunked\"\r\n\r\n", "#{POST}Transfer-Encoding : chunked\r\n\r\n",
      "#{POST}Transfer-Encoding: chunked;q=1\r\n\r\n", "#{POST}Transfer-Encoding: chunked chunked\r\n\r\n", "#{POST}Transfer-Encoding:\r\n chunked\r\n\r\n",
      "#{POST}Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", "#{POST}Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n",
      "#{POST}Transfer-Encoding: chunked, gzip\r\n\r\n", "#{POST}Transfer-Encoding: identity\r\n\r\n",
      "POST / HTTP/1.0\r\n#{HOST}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
      "#{CHUNKED}x\r\n", "#{CHUNKED}5\nhello", "#{CHUNKED}5\r\nhelloX\r\n", "#{CHUNKED}-1\r\n",
      "#{CHUNKED}5 \r\nhello\r\n", "#{CHUNKED}5;\x01\r\nhello\r\n", "#{CHUNKED}0\r\nbad trailer\r\n\r\n",
      "#{CHUNKED}0x5\r\n", "#{CHUNKED}+5\r\n", "#{CHUNKED} 5\r\n", "#{CHUNKED};x\r\n", "#{CHUNKED}\r\n", "#{CHUNKED}5;\r\n", "#{CHUNKED}5;=y\r\n",
      "#{CHUNKED}5\rX", "#{CHUNKED}5\r\nhello\n0", "#{CHUNKED}5;x=\"\n\"\r\n", "#{CHUNKED}5;x\n", "#{CHUNKED}0\n\n", "#{CHUNKED}0\r\n\n",
      "#{CHUNKED}0\r\n T: u\r\n\r\n", "#{CHUNKED}0\r\nT : u\r\n\r\n", "#{CHUNKED}0\r\nT: u\n\r\n", "#{CHUNKED}0\r\nT: a\0\r\n\r\n", "#{CHUNKED}0\r\n: u\r\n\r\n",
      "GET /\rX HTTP/1.1\r\n#{HOST}\r\n", "GET / HTTP/1.1 \r\n#{HOST}\r\n", "GET / HTTP/1.1\r\r\n#{HOST}\r\n", " GET / HTTP/1.1\r\n#{HOST}\r\n",
      "GET\t/ HTTP/1.1\r\n#{HOST}\r\n", "GET /\tHTTP/1.1\r\n#{HOST}\r\n", "G\u00e9T / HTTP/1.1\r\n#{HOST}\r\n", "GET http://\u00e9/ HTTP/1.1\r\n#{HOST}\r\n",
      "GET / HTTP/1.10\r\n#{HOST}\r\n", "GET / HTTP/1\r\n#{HOST}\r\n", "GET / HTTP/01.1\r\n#{HOST}\r\n", "GET / HTTP/1.x\r\n#{HOST}\r\n",
      "GET / HTTPS/1.1\r\n#{HOST}\r\n", "GET\r\n\r\n", "\0GET / HTTP/1.1\r\n#{HOST}\r\n", "GET  HTTP/1.1\r\n#{HOST}\r\n",
      "GET http:///x HTTP/1.1\r\n#{HOST}\r\n", "GET http://h:port/ HTTP/1.1\r\n#{HOST}\r\n", "GET ftp://h/ HTTP/1.1\r\n#{HOST}\r\n",
      "GET http://h/ HTTP/1.1\r\n\r\n", "POST * HTTP/1.1\r\n#{HOST}\r\n", "CONNECT /x HTTP/1.1\r\n#{HOST}\r\n", "CONNECT a HTTP/1.1\r\n#{HOST}\r\n",
      "OPTIONS x HTTP/1.1\r\n#{HOST}\r\n", "#{GET}Host: a\r\nhost: a\r\n\r\n", "#{GET}Host: a, b\r\n\r\n", "#{GET}Host: a:b\r\n\r\n", "#{GET}Host: u@h\r\n\r\n",
      "#{GET}Host: a/b\r\n\r\n", "#{GET}Host: [::1\r\n\r\n", "#{GET}Host : a\r\n\r\n", "GET / HTTP/1.0\r\n#{HOST}#{HOST}\r\n",
      "#{GET}#{HOST}: y\r\n\r\n", "#{GET}#{HOST}X(: y\r\n\r\n", "#{GET}#{HOST}X\u00e9: y\r\n\r\n", "#{GET}#{HOST}X: a\x7fb\r\n\r\n", "#{GET}#{HOST}X: a\nY: b\r\n\r\n",
      # No number that could be too large.
      "#{POST}Content-Length: 18446744073709551616\r\n\r\n", "#{CHUNKED}ffffffffffffffff0\r\n", "#{POST}Content-Length: 9223372036854775808\r\n\r\n",
      "#{POST}Content-Length: #{"9" * 200}\r\n\r\n", "#{CHUNKED}10000000000000005\r\n", "#{CHUNKED}00000000000000005\r\n", "#{CHUNKED}8000000000000000\r\n",
      "#{GET}Host:\r\n\r\n", "#{GET}Host: \r\n\r\n", "GET / HTTP/1.0\r\nHost:\r\n\r\n",
      "#{GET}#{HOST}X: a\r\n\n", "#{GET}#{HOST}\rX\r\n\r\n", "#{GET}#{HOST}X: y\r\n\t\r\n\r\n"
    ],
    413 => ["#{POST}Content-Length: 99999999999\r\n\r\n", "#{POST}Content-Length: 5000000000000000000\r\n\r\n"],
    417 => ["#{POST}Expect: miracles\r\n\r\n", "#{POST}Expect: 100-continue, x\r\n\r\n", "#{POST}Expect:\r\n\r\n"],
    431 => ["#{CHUNKED}5;#{"a" * 20_000}", "#{CHUNKED}0\r\nT: #{"a" * 20_000}", "#{GET}#{HOST}#{"X: y\r\n" * 100}\r\n", "#{GET}#{HOST}X: #{"a" * 70_000}"],
    501 => ["#{POST}Transfer-Encoding: gzip, chunked\r\n\r\n", "CONNECT a:443 HTTP/1.1\r\n#{HOST}\r\n",
            "#{"M" * 40} / HTTP/1.1\r\n#{HOST}\r\n"],
    505 => ["GET / HTTP/2.0\r\n#{HOST}\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "GET / HTTP/0.9\r\n\r\n",
            "GET / HTTP/3.0\r\n#{HOST}\r\n", "GET / HTTP/9.9\r\n#{HOST}\r\n"]
  }.freeze

  def test_refusals
    serve(HELLO)
    REFUSED.each do |status, requests|
      requests.each do |request|
        answer = exchange(request, shut: false)
        assert_match(/\AHTTP\/1.1 #{status} /, answer, request[0, 80].inspect)
        assert_match(/connection: close\r\n/i, answer)
        assert_equal 1, answer.scan(/^HTTP\/1.1 /).size, request[0, 80].inspect
      end
    end
    eventually { @server.stats[:connections].zero? }
    assert_equal 0, @server.stats[:requests]
  end

  def test_a_bad_request_after_a_good_one_is_refused_too
    serve(HELLO)
    answer = exchange("#{GET}#{HOST}\r\nGET x HTTP/1.1\r\n\r\n")
    assert_equal %w[200 400], answer.scan(/HTTP\/1.1 (\d+)/).flatten
  end

  def test_one_empty_line_before_a_request_is_forgiven
    serve(HELLO)
    assert_match(/\AHTTP\/1.1 200/, exchange("\r\n#{GET}#{HOST}\r\n"))
    assert_match(/\AHTTP\/1.1 400/, exchange("\r\n\r\n#{GET}#{HOST}\r\n"))
  end

  # Each byte boundary of two pipelined requests: what arrives in two packets is the same request.
  def test_every_split_of_every_byte
    serve { |env| [200, TEXT, ["#{env["PATH_INFO"]}:#{env["rack.input"].read}"]] }
    bytes = "POST /one HTTP/1.1\r\n#{HOST}Content-Length: 3\r\n\r\nabc" \
            "POST /two HTTP/1.1\r\n#{HOST}Transfer-Encoding: chunked\r\n\r\n3;x=y\r\ndef\r\n0\r\nT: u\r\n\r\n"
    socket = connect
    (1...bytes.bytesize).each do |cut|
      socket.write(bytes[0, cut])
      answers = cut >= 53 ? [read_response(socket).body] : []
      socket.write(bytes[cut..])
      answers << read_response(socket).body while answers.size < 2
      assert_equal %w[/one:abc /two:def], answers, "cut at #{cut}"
    end
  end

  def test_byte_by_byte
    serve { |env| [200, TEXT, [env["rack.input"].read]] }
    socket = connect
    "POST / HTTP/1.1\r\n#{HOST}Transfer-Encoding: chunked\r\n\r\nb\r\nhello world\r\n0\r\n\r\n".each_char do |byte|
      socket.write(byte)
    end
    assert_equal "hello world", read_response(socket).body
  end
end
# rubocop:enable Layout/LineLength
