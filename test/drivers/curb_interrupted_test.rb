# frozen_string_literal: true

require "minitest/autorun"
require "timeout"
require "curb"
require "neverblock"
require_relative "../support/http_servers"

# What a timeout leaves of curb's handles, in threads and in fibers.
class CurbInterruptedTest < Minitest::Test
  def self.test_both(name, &body)
    define_method("test_#{name}_in_a_thread") { Thread.new { instance_exec(&body) }.value }
    define_method("test_#{name}_in_a_fiber") do
      NB.run { Timeout.timeout(20) { instance_exec(&body) } }
    end
  end

  test_both "a_handle_performs_again" do
    easy = Curl::Easy.new(HTTPServers.url(2000))
    assert_raises(Timeout::Error) { Timeout.timeout(0.1) { easy.perform } }
    easy.url = HTTPServers.url(1)
    easy.perform
    assert_equal "done", easy.body_str
    assert_equal "done", Curl.get(HTTPServers.url(1)).body_str
  end

  test_both "nothing_arrives_after_a_timeout" do
    got = []
    easy = Curl::Easy.new(HTTPServers.url(200))
    easy.on_body { |bytes| got << bytes && bytes.bytesize }
    assert_raises(Timeout::Error) { Timeout.timeout(0.05) { easy.perform } }
    assert_equal "done", Curl.get(HTTPServers.url(400)).body_str
    assert_empty got
  end

  test_both "a_timeout_in_a_block_arrives" do
    easy = Curl::Easy.new(HTTPServers.url(1))
    easy.on_body { |bytes| sleep(0.3) && bytes.bytesize }
    assert_raises(Timeout::Error) { Timeout.timeout(0.1) { easy.perform } }
    assert_equal "done", Curl.get(HTTPServers.url(1)).body_str
  end

  test_both "a_multi_continues" do
    multi = Curl::Multi.new
    got = []
    2.times { multi.add(easy_into(got, 400)) }
    assert_raises(Timeout::Error) { Timeout.timeout(0.1) { multi.perform } }
    assert_empty got
    multi.perform
    assert_equal %w[done done], got
    multi.add(easy_into(got, 1))
    multi.perform
    assert_equal %w[done done done], got
  end

  private

  def easy_into(got, milliseconds)
    Curl::Easy.new(HTTPServers.url(milliseconds)) do |easy|
      easy.on_complete { |one| got << one.body_str }
    end
  end
end
