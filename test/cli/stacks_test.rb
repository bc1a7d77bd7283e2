# frozen_string_literal: true

require "minitest/autorun"
require "open3"
require "rbconfig"
require "tempfile"
require "tmpdir"

# How a command that runs an application has Ruby start anew: with which stacks, and in which
# environment.
class StacksTest < Minitest::Test
  NB_PROGRAM = File.expand_path("../../exe/nb", __dir__)
  RETURN = "RUBY_SHARED_FIBER_POOL_FREE_STACKS"
  # Fibers end while one of the same allocation lives; the kernel knows what was given back to it.
  # On its first line what it has of that, then the names in the environment.
  SCRIPT = <<~'RUBY'
    kept = Array.new(64) { Fiber.new { Fiber.yield }.tap(&:resume) }
    kept.each_slice(2) { |fiber, _| fiber.resume }
    puts File.read("/proc/self/smaps_rollup")[/^LazyFree:\s+(\d+)/, 1]
    puts ENV.keys.grep(/FIBER|NB_STACKS/).map { |name| "#{name}=#{ENV[name]}" }.inspect
  RUBY

  def setup
    skip "the kernel does not tell" unless File.exist?("/proc/self/smaps_rollup")
    @script = Tempfile.create(%w[stacks .rb])
    @script.write(SCRIPT)
    @script.close
  end

  def teardown
    File.unlink(@script) if @script
  end

  def test_an_ended_fiber_keeps_the_memory_of_its_stack
    skip "this Ruby gives no stack back" if given_back(RbConfig.ruby).first.zero?
    assert_equal [0, "[]"], given_back(RbConfig.ruby, NB_PROGRAM, "run")
  end

  def test_what_the_user_has_set_stays
    plain = given_back(RbConfig.ruby, env: { RETURN => "1" })
    nb = given_back(RbConfig.ruby, NB_PROGRAM, "run", env: { RETURN => "1" })
    assert_equal [plain.first.positive?, "[\"#{RETURN}=1\"]"], [nb.first.positive?, nb.last]
  end

  def test_the_environment_is_as_it_was
    assert_equal "[]", given_back(RbConfig.ruby, NB_PROGRAM, "run").last
  end

  # As on a system without /proc, where nobody tells Ruby's own options.
  HIDDEN = <<~RUBY
    class << File
      prepend(Module.new { def readlink(path) = path.start_with?("/proc") ? raise(Errno::ENOENT) : super })
    end
  RUBY
  TELLS = "p [$VERBOSE, $LOAD_PATH.first(2), ARGV]"

  def test_options_survive_without_proc
    Dir.mktmpdir do |folder|
      { "hidden.rb" => HIDDEN, "tells.rb" => TELLS }.each do |name, text|
        File.write("#{folder}/#{name}", text)
      end
      env = { "RUBYOPT" => "-r#{folder}/hidden.rb", "RUBYLIB" => "#{folder}/c" }
      options = ["-w", "-I#{folder}/a b", "-I", "#{folder}/b"]
      words = [*options, NB_PROGRAM, "run", "#{folder}/tells.rb", "x y"]
      out, status = Open3.capture2e(env, RbConfig.ruby, *words)
      assert_equal "#{[true, ["#{folder}/a b", "#{folder}/b"], ["x y"]].inspect}\n", out
      assert_predicate status, :success?
    end
  end

  private

  # @return [Array(Integer, String)] kilobytes; the names
  def given_back(*command, env: {})
    out, err, status = Open3.capture3(env, *command, @script.path)
    assert status.success?, err
    number, names = out.lines(chomp: true)
    [Integer(number), names]
  end
end
