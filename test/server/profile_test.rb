# frozen_string_literal: true

require_relative "program"
require "neverblock"
require_relative "../support/program"

# `nb serve --profile`: each process tells where its time went.
class ServerProfileTest < Minitest::Test
  include ServerProgram

  def setup
    super
    File.write("#{@dir}/config.ru", <<~'RUBY')
      run lambda { |env|
        sleep 0.02
        [200, {"content-type" => "text/plain"}, [Process.pid.to_s]]
      }
    RUBY
  end

  [[], %w[-w 1]].each do |flags|
    define_method("test_tells_at_the_end_#{flags.join}") do
      start("--profile=out", *flags)
      pid = get("/")
      2.times { get("/") }
      assert_predicate finish, :success?
      assert_equal [pid.to_s], log.scan(/^Profile of pid (\d+)/).flatten
      assert_match(/^ +0\.\d+ +0\.\d+ +3  sleep  config\.ru:2 /, log)
      assert_match(/^ .* requests$/, log)
      graph = JSON.parse(File.read("#{@dir}/out/profile-#{pid}.speedscope.json"))
      assert_includes(graph["shared"]["frames"].map { |frame| frame["name"] }, "requests")
    end
  end

  def test_a_folder_that_cannot_be_is_one_sentence
    _, err, status = Program.nb("serve", "--profile=#{@dir}/config.ru/x", "#{@dir}/config.ru")
    assert_match(/\Anb serve: --profile: cannot use this folder: /, err)
    assert_equal [1, 1], [status.exitstatus, err.lines.size]
  end
end
