# frozen_string_literal: true

require "minitest/autorun"
require_relative "../support/subprocess"

# Profilers wrap the hooks in Ruby. What a hook tells Ruby's C code only must not come out there:
# `undef` ends the process.
class WrappedHooksTest < Minitest::Test
  WRAPPED = <<~RUBY
    require "tempfile"
    scheduler = Fiber.scheduler
    hooks = %i[block unblock kernel_sleep io_wait io_read io_write io_pread io_pwrite io_select io_close
               process_wait fiber address_resolve timeout_after blocking_operation_wait fiber_interrupt]
    scheduler.singleton_class.prepend(Module.new do
      (hooks & scheduler.public_methods).each do |hook|
        define_method(hook) { |*arguments, **options, &block| [super(*arguments, **options, &block)].first }
      end
    end)
  RUBY

  def run_wrapped(script)
    result = Subprocess.ruby("NB.run do\n#{WRAPPED}#{script}\nend")
    assert_predicate result.status, :success?, result.err
    assert_empty result.err
    result.out
  end

  def test_files
    out = run_wrapped(<<~RUBY)
      file = Tempfile.new
      file.write("text")
      file.fsync
      file.close
      puts File.read(file.path), Dir.children(File.dirname(file.path)).include?(File.basename(file.path))
      reader, writer = IO.pipe
      NB.async { sleep(0.01) && writer.close }
      puts reader.read.inspect
      reader.close
    RUBY
    assert_equal %(text\ntrue\n""\n), out
  end

  # Ruby names another IO object there; unwrapped, the hook leaves the writing to Ruby.
  def test_a_two_way_pipe_of_which_the_reading_end_is_closed
    out = run_wrapped(<<~RUBY)
      IO.popen("cat > /dev/null", "r+") do |io|
        io.close_read
        io.write("x") and puts "written"
      rescue IOError => error
        puts error.class
      end
    RUBY
    assert_includes ["written\n", "IOError\n"], out
  end
end
