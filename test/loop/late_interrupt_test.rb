# frozen_string_literal: true

require "minitest/autorun"
require "neverblock"
require "rbconfig"
require "tmpdir"

# Thread#kill and Thread#raise that come while a function in C has let other threads run, and does
# not look before it waits (rb_thread_call_without_gvl2): they strike in that wait, as in a thread.
class LateInterruptTest < Minitest::Test
  SOURCE = <<~C
    #include <poll.h>
    #include <ruby.h>
    #include <ruby/io.h>
    #include <ruby/thread.h>
    #include <unistd.h>

    static void *take_turn(void *fds)
    {
        struct pollfd go = {.fd = ((int *)fds)[1], .events = POLLIN};
        ((int *)fds)[2] = 1;
        if (write(((int *)fds)[0], "x", 1) == 1)
            while (poll(&go, 1, -1) < 0)
                ;
        return NULL;
    }

    /* Ruby calls nothing while it has pending work, such as that of its own timer. */
    static void miss_turn(VALUE begun, VALUE go)
    {
        int fds[] = {NUM2INT(begun), NUM2INT(go), 0};
        while (rb_thread_call_without_gvl2(take_turn, fds, NULL, NULL), !fds[2])
            rb_thread_check_ints();
    }

    static VALUE wait_late(VALUE self, VALUE begun, VALUE go, VALUE io)
    {
        miss_turn(begun, go);
        return rb_io_wait(io, INT2FIX(RUBY_IO_READABLE), Qnil);
    }

    static VALUE shield_late(VALUE self, VALUE begun, VALUE go, VALUE scheduler)
    {
        VALUE block = rb_block_proc();
        miss_turn(begun, go);
        return rb_funcall_with_block(scheduler, rb_intern("shield"), 0, NULL, block);
    }

    void Init_late(void)
    {
        rb_define_singleton_method(rb_define_module("LateInterrupt"), "shield_late", shield_late, 3);
        rb_define_singleton_method(rb_define_module("LateInterrupt"), "wait_late", wait_late, 3);
    }
  C
  INTERRUPTS = {kill: [], raise: [IOError, "late"]}.freeze
  WAYS = {thread: ->(work, _) { work.call },
          leader: ->(work, backend) { NB.run(backend: backend) { work.call } },
          task: ->(work, backend) { NB.run(backend: backend) { NB.async(&work).wait } }}.freeze

  def self.compile
    config = RbConfig::CONFIG
    Dir.mktmpdir do |folder|
      File.write("#{folder}/late.c", SOURCE)
      system(*config["CC"].split, "-shared", "-fPIC", "-I#{config["rubyhdrdir"]}",
             "-I#{config["rubyarchhdrdir"]}", "#{folder}/late.c", "-o", "#{folder}/late.so",
             exception: true)
      require "#{folder}/late.so"
    end
  end
  compile

  INTERRUPTS.each_key do |interrupt|
    WAYS.each_key do |way|
      (way == :thread ? [nil] : NB::Native.backends.map(&:to_sym)).each do |backend|
        define_method("test_#{interrupt}_in_#{[way, *backend].join("_of_")}") do
          check_late(interrupt) { |work| WAYS.fetch(way).call(work, backend) }
        end
      end
    end
  end

  # A timeout of a fiber that computes, and Thread#raise: both have left something for the thread.
  {timeout: ->(work) { Timeout.timeout(0.001, IOError, &work) },
   raise: lambda do |work|
     thread = Thread.current
     Thread.new { thread.raise(IOError) }
     work.call
   end}.each do |name, strike|
    NB::Native.backends.map(&:to_sym).each do |backend|
      define_method("test_a_shield_begins_after_what_came_by_#{name}_of_#{backend}") do
        begun = ended = 0
        pipes = Array.new(2) { IO.pipe }
        thread = Thread.current
        go = Thread.new do
          Thread.pass until thread.pending_interrupt?
          pipes[1][1] << "x"
        end
        assert_raises(IOError) do
          NB.run(backend: backend) do
            strike.call(proc do
              LateInterrupt.shield_late(pipes[0][1].fileno, pipes[1][0].fileno, Fiber.scheduler) do
                (begun += 1) && sleep(0.001) && (ended += 1)
              end
            end)
          end
        end
        assert_equal [0, 0], [begun, ended]
        go.join
        pipes.flatten.each(&:close)
      end
    end
  end

  private

  def check_late(interrupt)
    came = []
    pipes = Array.new(3) { IO.pipe }
    thread = Thread.new { yield -> { wait_late(pipes, came) } }
    thread.report_on_exception = false
    pipes[0][0].readpartial(1)
    thread.public_send(interrupt, *INTERRUPTS.fetch(interrupt))
    pipes[1][1] << "x"
    assert outcome_of(thread), "it waits on"
    assert_equal [interrupt == :kill ? nil : IOError], came
  ensure
    thread&.kill
    pipes.flatten.each(&:close)
  end

  # @return [true, Class, nil] what it has ended with; nil: it has not
  def outcome_of(thread)
    thread.join(20) && true
  rescue IOError => error
    error.class
  end

  def wait_late(pipes, came)
    LateInterrupt.wait_late(pipes[0][1].fileno, pipes[1][0].fileno, pipes[2][0])
  ensure
    came << $!&.class # rubocop:disable Style/SpecialGlobalVars
  end
end
