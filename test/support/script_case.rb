# frozen_string_literal: true

# rubocop:disable Layout/LineLength -- a script or an expectation each, better on one line

require "minitest/autorun"
require_relative "subprocess"
require_relative "worlds"

# Tests of what belongs to a whole process: each runs a script in a fresh Ruby, in plain threads and
# under each backend, and compares what it prints. In the script `inside { }` enters the world,
# `go { }` starts a strand and `finish strand` waits for its value.
class ScriptCase < Minitest::Test
  PRELUDE = <<~'RUBY'
    $stdout.sync = true
    PLAIN = ENV["NB_WORLD"] == "threads"
    require "neverblock" unless PLAIN
    require "socket"
    require "timeout"
    def inside(&block) = PLAIN ? block.call : NB.run(&block)
    def go(&block)
      # From Ruby 4.0 on a forked child has no scheduler.
      return Thread.new(&block).tap { |thread| thread.report_on_exception = false } unless
        Fiber.current_scheduler

      box = []
      Fiber.schedule { box << block.call }
      box
    end
    # A child that sends us the signal once `asleep` was called just before a wait.
    def signal_when_asleep(name) = signal_when(name) { sleep 0.05 until sleeps?($parent) }
    # The same once the block has returned, in the child.
    def signal_when(name)
      $parent = Process.pid
      reader, $asleep = IO.pipe
      fork do
        $asleep.close
        reader.read(1)
        sleep 0.05
        yield
        Process.kill(name, $parent)
        exit!
      end
      reader.close
    end
    def asleep = $asleep.syswrite("x")
    def sleeps?(pid)
      file = "/proc/#{pid}/stat" # of its main thread
      !File.exist?(file) || File.read(file)[/.*\) (\w)/m, 1] == "S"
    end
    def finish(strand)
      return strand.value if strand.is_a?(Thread)

      sleep 0.001 while strand.empty?
      strand.first
    end
  RUBY

  class << self
    # @param out [String] what the script prints
    # @param status [Integer, Symbol] exit status, or the signal that ended it
    # @param only [:fibers, nil] :fibers leaves plain threads out
    # @param chaos [Boolean] false: it relies on whose turn it is, which NB_CHAOS changes
    def script(name, source, out:, status: 0, only: nil, ruby: nil, err: nil, limit: 60, chaos: true)
      why = "chaos changes whose turn it is" unless chaos || !ENV["NB_CHAOS"]
      why ||= "of Ruby #{ruby}" unless
        ruby.nil? || Gem::Requirement.new(ruby).satisfied_by?(Gem.ruby_version)

      Worlds.all.each do |world|
        next if only == :fibers && !world.fibers?

        define_method("test_#{name.gsub(/\W+/, "_")}_#{world.name}") do
          skip why if why
          result = run_script(source, world.name, limit)
          assert_equal [out, status], [result.out, ended(result)], result.err
          err ? assert_match(err, result.err) : assert_empty(result.err)
        end
      end
    end
  end

  private

  def run_script(source, world, limit)
    env = { "NB_WORLD" => world, "NB_BACKEND" => (world unless world == "threads") }
    result = Subprocess.ruby(PRELUDE + source, env: env, limit: limit, loaded: false)
    refute result.hung,
"still running after #{limit} s; printed #{result.out.inspect} #{result.err}"
    result
  end

  def ended(result)
    result.status.signaled? ? Signal.signame(result.status.termsig).to_sym : result.status.exitstatus
  end
end
# rubocop:enable Layout/LineLength
