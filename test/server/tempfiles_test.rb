# frozen_string_literal: true

require "rack"
require_relative "helper"

# The files that Rack makes for multipart uploads: nobody else deletes them before Ruby collects
# garbage.
class ServerTempfilesTest < Minitest::Test
  include ServerTest

  # What Ruby collects would be deleted, too.
  def setup = GC.disable

  def teardown
    super
  ensure
    GC.enable
  end

  PART = "--x\r\nContent-Disposition: form-data; name=\"f\"; filename=\"a.txt\"\r\n\r\n" \
         "bytes\r\n--x--\r\n"
  UPLOAD = "POST / HTTP/1.1\r\n#{HOST}Content-Type: multipart/form-data; boundary=x\r\n" \
           "Content-Length: #{PART.bytesize}\r\nConnection: close\r\n\r\n#{PART}".freeze

  def uploaded(env) = Rack::Request.new(env).POST["f"][:tempfile]

  def test_are_deleted_after_the_response
    path = nil
    serve { |env| [200, TEXT, [uploaded(env).tap { |file| path = file.path }.read]] }
    assert_match(/\r\n\r\nbytes\z/, exchange(UPLOAD))
    eventually { !File.exist?(path) }
  end

  def test_last_as_long_as_the_response_reads_them
    order = []
    serve do |env|
      file = uploaded(env)
      env["rack.response_finished"] << ->(*) { order << File.exist?(file.path) }
      body = Enumerator.new { |parts| 2.times { parts << file.tap(&:rewind).read } }
      [200, TEXT, body]
    end
    assert_equal "bytesbytes", exchange(UPLOAD).scan("bytes").join
    eventually { order == [true] }
  end

  def test_are_deleted_if_the_application_raises
    path = nil
    serve do |env|
      path = uploaded(env).path
      raise "no"
    end
    assert_match(/\AHTTP\/1.1 500 /, exchange(UPLOAD))
    eventually { !File.exist?(path) }
  end

  def test_stay_if_the_application_takes_them_out
    file = nil
    done = Thread::Queue.new
    serve(on_request: ->(_) { done << true }) do |env|
      file = uploaded(env)
      env.delete("rack.tempfiles")
      [200, TEXT, []]
    end
    exchange(UPLOAD)
    @server.stop
    @servers.pop.last.join
    assert_equal "bytes", file.read
  ensure
    file&.close!
  end

  def test_one_that_cannot_be_deleted_keeps_none_of_the_others
    good = Tempfile.new("nb-tempfile")
    bad = Object.new
    def bad.close! = raise("stuck")
    serve do |env|
      env["rack.tempfiles"] = [StringIO.new, bad, nil, good]
      [200, TEXT, ["ok"]]
    end
    assert_match(/ok\z/, get)
    eventually { good.path.nil? }
    assert_match(/RuntimeError: stuck/, @log.string)
  end

  def test_other_values_are_left_alone
    serve do |env|
      env["rack.tempfiles"] = "none"
      [200, TEXT, ["ok"]]
    end
    2.times { assert_match(/ok\z/, get) }
    assert_empty @log.string
  end
end
