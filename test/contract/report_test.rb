# frozen_string_literal: true

# rubocop:disable Layout/LineLength -- a script or an expectation each, better on one line

require_relative "../support/script_case"

# Reports of errors that nobody waits for, where stderr cannot be written. Plain threads are left
# out: in Ruby, a thread tries forever to write such a report.
class ReportTest < ScriptCase
  ENDS = <<~'RUBY'
    beside = { "fiber" => -> { Fiber.schedule { sleep 0.001; raise "x" } }, "task" => -> { NB.async { sleep 0.001; raise "x" } } }
    beside.each do |name, start|
      p [name, NB.run { start.call; sleep 0.01; :value }, NB.run { start.call; :last }]
    end
    p(NB.run do
      done, runs = Thread::Queue.new, 0
      NB.every(0.002) { (runs += 1) > 2 ? done << runs : raise("x") }
      done.pop
    end)
    p(NB.run do
      pool = NB::FiberPool.new(1)
      done = Thread::Queue.new
      3.times { |i| pool.spawn { i == 2 ? done << :pooled : raise("x") } }
      done.pop
    end)
    begin
      NB.run { NB.group { |group| 2.times { |i| group.async { begin; sleep 0.001 + (i * 0.05); ensure; raise "error #{i}"; end } } } }
    rescue => error
      p error.message
    end
  RUBY
  ENDED = %(["fiber", :value, :last]\n["task", :value, :last]\n3\n:pooled\n"error 0"\n)

  { "nobody reads it" => "reader, $stderr = IO.pipe; reader.close",
    "it is closed" => "$stderr = File.open(File::NULL, 'w').tap(&:close)",
    "its disk is full" => "$stderr = File.open('/dev/full', 'w').tap { |file| file.sync = true }",
    "the standard stream has no reader" => "reader, writer = IO.pipe; reader.close; $stderr.reopen(writer)",
    "it is an object that raises" => "$stderr = Object.new.tap { |to| def to.write(*) = raise(ArgumentError, 'no') }" }.each do |name, broken|
    script "a report is lost, and nothing else, where #{name}", "#{broken}\n#{ENDS}", out: ENDED, only: :fibers
  end

  # Defines `fill`, which runs its block while stderr is a full pipe that is read only later.
  FULL = <<~'RUBY'
    def fill
      reader, writer = IO.pipe
      writer.write_nonblock("x" * 65_536)
      writer.sync = true
      pid = fork { writer.close; sleep 0.1; exit!(reader.read.include?("the end of it")) }
      reader.close
      $stderr = writer
      value = yield
      $stderr = STDERR
      writer.close
      p [value, Process.wait2(pid).last.success?]
    end
  RUBY

  script "the report of a last fiber comes whole while stderr is full", FULL + <<~'RUBY', out: "[:value, true]\n", only: :fibers
    fill { NB.run { Fiber.schedule { sleep 0.001; raise "#{"y" * 1000} the end of it" }; :value } }
  RUBY

  script "what a fiber is told after its end does not break its report off", FULL + <<~'RUBY', out: "[:value, true]\n", only: :fibers
    fill do
      NB.run do
        Fiber.schedule do
          sleep 0.001
          Fiber.scheduler.fiber_interrupt(Fiber.current, IOError.new("late"))
          raise "the end of it"
        end
        :value
      end
    end
  RUBY

  script "an error whose message raises is reported by its class", <<~'RUBY', out: ":value\n", only: :fibers, err: /terminated with exception:\nOdd \(its message raises KeyError\)/
    class Odd < StandardError
      def message = raise(KeyError, "no message")
      def detailed_message(**) = message
      def full_message(**) = message
    end
    p(NB.run { Fiber.schedule { sleep 0.001; raise Odd }; :value })
  RUBY
end
# rubocop:enable Layout/LineLength
