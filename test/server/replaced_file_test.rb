# frozen_string_literal: true

require_relative "helper"
require "tmpdir"

# A File as the response body is the file that it has open, whatever has its path by then.
class ServerReplacedFileTest < Minitest::Test
  include ServerTest

  def setup
    @folder = Dir.mktmpdir("nb-replaced")
    @path = "#{@folder}/report"
  end

  def teardown
    super
    FileUtils.rm_rf(@folder)
  end

  # Each request makes the file anew, and another does so before this one is answered.
  def test_no_request_gets_the_file_of_another
    serve do |env|
      name = env["PATH_INFO"]
      FileUtils.rm_f(@path)
      File.write(@path, "of #{name}")
      file = File.open(@path)
      sleep 0.001 until name == "/second" || !File.identical?(file, @path)
      [200, TEXT, file]
    end
    first = Thread.new { get("/first") }
    eventually { File.exist?(@path) && File.read(@path) == "of /first" }
    assert_match(/\r\n\r\nof \/second\z/, get("/second"))
    assert_includes first.value, "of /first"
  end

  # Its size is 0, whatever it has.
  def test_a_file_of_proc_is_sent
    serve { |_env| [200, TEXT, File.open("/proc/version")] }
    assert_includes get, File.read("/proc/version")
  end

  def test_a_file_at_its_path_is_sent_with_its_length
    File.write(@path, "x" * 100_000)
    serve { |_env| [200, TEXT, File.open(@path)] }
    assert_match(/\r\ncontent-length: 100000\r\n.*\r\n\r\nx{100000}\z/m, get)
  end
end
