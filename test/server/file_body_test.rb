# frozen_string_literal: true

require_relative "helper"
require "tmpdir"

# A File as the response body is what its each gives: the file that it has open, whatever has its
# path by then, from the File's position on.
class ServerFileBodyTest < Minitest::Test
  include ServerTest

  CONTENT = "0123456789" * 10

  # What the application did with the File before.
  USES = {
    "/opened" => ->(_file) {}, "/sought" => ->(file) { file.seek(90) },
    "/read" => ->(file) { file.read(40) }, "/line" => ->(file) { file.gets("5") },
    "/pushed_back" => ->(file) { file.read(40) && file.ungetbyte("XYZ") },
    "/pushed_before" => ->(file) { file.ungetbyte("XYZ") },
    "/ended" => ->(file) { file.read }, "/beyond" => ->(file) { file.seek(1000) },
    "/written" => ->(file) { file.write("ab") }
  }.freeze

  def setup
    @folder = Dir.mktmpdir("nb-file-body")
    @path = "#{@folder}/report"
  end

  def teardown
    super
    FileUtils.rm_rf(@folder)
  end

  def open_file(use)
    File.write(@path, CONTENT)
    File.open(@path, "r+").tap(&USES.fetch(use))
  end

  def ask(path, verb: "GET", fields: "")
    socket = connect
    socket.write("#{verb} #{path} HTTP/1.1\r\n#{HOST}#{fields}\r\n")
    read_response(socket, head: verb == "HEAD")
  end

  def test_it_begins_at_the_position
    serve { |env| [200, TEXT, open_file(env["PATH_INFO"])] }
    USES.each_key do |use|
      expected = open_file(use).then { |file| file.each.to_a.join.tap { file.close } }
      assert_equal expected, ask(use).body, use
      length = ask(use, verb: "HEAD").headers["content-length"]
      assert_includes [nil, expected.bytesize.to_s], length, use
    end
    assert_equal "10", ask("/sought", verb: "HEAD").headers["content-length"]
  end

  def test_a_length_of_the_rest_is_right
    serve do |env|
      [200, {**TEXT, "content-length" => env["HTTP_X_LENGTH"]}, open_file("/sought")]
    end
    assert_equal "0123456789", ask("/", fields: "X-Length: 10\r\n").body
    rest = exchange("GET / HTTP/1.1\r\n#{HOST}X-Length: 100\r\n\r\n") # ends: it is too short
    assert_match(/\r\ncontent-length: 100\r\n.*\r\n\r\n0123456789\z/m, rest)
  end

  def test_a_file_that_cannot_be_read_is_a_mistake
    serve { |_env| [200, TEXT, File.open(@path, "w")] }
    assert_equal 500, ask("/").status
    assert_match(/IOError: not opened for reading/, @log.string)
  end

  def test_a_closed_file_is_a_mistake
    serve { |_env| [200, TEXT, open_file("/opened").tap(&:close)] }
    assert_equal 500, ask("/").status
    assert_match(/IOError: closed stream/, @log.string)
  end

  # The size of its file is 4096, whatever it contains.
  def test_a_file_of_sys_is_sent
    path = "/sys/kernel/mm/transparent_hugepage/enabled"
    skip "no #{path}" unless File.file?(path)
    serve { |_env| [200, TEXT, File.open(path)] }
    assert_equal File.read(path), ask("/").body
    assert_nil ask("/", verb: "HEAD").headers["content-length"]
  end

  def test_a_sparse_file_is_sent_with_its_length
    serve do |_env|
      File.open(@path, "w") { |file| file.truncate(100_000) }
      [200, TEXT, File.open(@path)]
    end
    response = ask("/")
    assert_equal "100000", response.headers["content-length"]
    assert_equal "\0" * 100_000, response.body
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
