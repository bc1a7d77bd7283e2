# frozen_string_literal: true

require_relative "../support/script_case"

# A handler of CHLD that reaps whatever has ended, as masters of worker processes have it, beside
# code that waits for a child of its own. A thread in waitpid(2) gets its child before the handler.
class ChildSignalTest < ScriptCase
  REAPS = {
    "Process.wait" => "Process.wait(-1, Process::WNOHANG)",
    "Process.wait2" => "Process.wait2(-1, Process::WNOHANG)",
    "Process.waitpid" => "Process.waitpid(0, Process::WNOHANG)",
    "Process.waitpid2" => "Process.waitpid2(-1, Process::WNOHANG)",
    "Process.waitall" => "Process.waitall.first",
    "Process::Status.wait" =>
      "Process::Status.wait(-1, Process::WNOHANG)&.then { |status| status.pid.positive? }"
  }.freeze

  OUT = "[false, 3, 4, 5]\ntrue\n"

  REAPS.each do |name, reap|
    script "a handler that calls #{name} leaves what is waited for", <<~RUBY + <<~'RUBY', out: OUT
      def reap = #{reap}
    RUBY
      others = 0
      trap("CHLD") do
        others += 1 while reap
      rescue SystemCallError
        nil
      end
      inside do
        p [system("sleep 0.05; exit 3"), $?.exitstatus,
           Process.wait2(spawn("sleep 0.05; exit 4")).last.exitstatus,
           Process::Status.wait(spawn("sleep 0.05; exit 5")).exitstatus]
        spawn("true")
        sleep 0.001 until others.positive?
        p true
      end
    RUBY
  end

  # Each exception breaks off one wait; after the third the loop ends without the fiber.
  script "a fiber that its loop has left takes no child", <<~'RUBY', out: "true\n", only: :fibers
    ends, keep = IO.pipe
    pid = fork { keep.close; ends.read }
    begun = Queue.new
    thread = Thread.new do
      NB.run do
        Fiber.schedule do
          begun << 1
          Process.wait(pid)
        ensure
          begin
            Process.wait(pid)
          ensure
            Process.wait(pid)
          end
        end
        sleep
      end
    end
    thread.report_on_exception = false
    begun.pop
    until (thread.join(0.02) rescue true)
      thread.raise("stop")
    end
    keep.close
    sleep 0.01 until File.read("/proc/#{pid}/stat").include?(") Z ")
    p Process.wait == pid
  RUBY
end
