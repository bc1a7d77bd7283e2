# frozen_string_literal: true

require "fiddle"
require "minitest/autorun"
require_relative "../support/subprocess"

# System calls that a sandbox refuses, although the kernel has them. Those of Docker before 20.10,
# and of systemd's SystemCallErrorNumber=EPERM, answer EPERM where an older kernel says ENOSYS.
class SandboxTest < Minitest::Test
  # A filter of seccomp(2).
  REFUSE = <<~'RUBY'
    require "fiddle"
    def refuse(number)
      arguments = [Fiddle::TYPE_INT, Fiddle::TYPE_LONG, Fiddle::TYPE_VOIDP, *[Fiddle::TYPE_LONG] * 2]
      prctl = Fiddle::Function.new(Fiddle::Handle::DEFAULT["prctl"], arguments, Fiddle::TYPE_INT)
      lines = [[0x20, 0, 0, 0], [0x15, 0, 1, number], [0x06, 0, 0, 0x00050001], [0x06, 0, 0, 0x7fff0000]]
      filter = lines.map { |line| line.pack("SCCL") }.join
      program = [lines.size, Fiddle::Pointer[filter].to_i].pack("Sx6Q")
      prctl.call(38, 1, nil, 0, 0)
      exit!(77) unless prctl.call(22, 2, Fiddle::Pointer[program], 0, 0).zero?
    end
  RUBY
  EPOLL_PWAIT2, PREADV2, PIDFD_OPEN = 441, 327, 434 # of x86-64

  { EPOLL_PWAIT2 => "sleep 0.01; puts :done", PREADV2 => "File.read(File::NULL); puts :done",
    PIDFD_OPEN => "system('true'); puts :done" }.each do |number, work|
    define_method("test_the_system_call_#{number}") do
      skip "of x86_64 Linux only" unless RUBY_PLATFORM.start_with?("x86_64-linux")

      result = Subprocess.ruby("#{REFUSE}; refuse(#{number}); NB.run { #{work} }")
      skip "no filter may be set here" if result.status.exitstatus == 77
      assert_equal "done\n", result.out, result.err
    end
  end
end
