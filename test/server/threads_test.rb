# frozen_string_literal: true

require_relative "program"
require_relative "../support/ports"
require "net/http"

# A master for which the system makes no more threads, as where a container limits its pids.
class ServerThreadsTest < Minitest::Test
  include ServerProgram

  # The stack of a thread is larger than the memory that is left, so each new thread fails. A few
  # finished ones are used again.
  STACK = 512 << 20
  LEFT = 256 << 20
  PAGE = "page allow: :all"

  def limit(bytes) = system("prlimit", "--pid", @pid.to_s, "--as=#{bytes}:", exception: true)

  def allow_no_more_threads
    size = File.read("/proc/#{@pid}/status")[/^VmSize:\s*(\d+)/, 1].to_i * 1024
    limit(size + LEFT)
  end

  # Uses up the threads that are used again: the next client is sent away, by the closing of its
  # connection.
  def silent_clients
    clients = []
    loop do
      clients << UNIXSocket.new(@control.delete_prefix("unix://"))
      away = clients.find { |client| client.wait_readable(0.2) }
      return clients if away && away.read == ""
      flunk "64 clients have threads" if clients.size > 63
    end
  end

  def serve
    skip "Linux only" unless File.exist?("/proc/self/status")
    skip "Ruby 3.3 hangs once it is refused a thread" if RUBY_VERSION.start_with?("3.3.")
    @port = Ports.free
    File.write("#{@dir}/nb.rb", PAGE)
    launch(*nb("serve", "-w", "1", "-b", "tcp://127.0.0.1:#{@port}"),
      env: {"RUBY_THREAD_MACHINE_STACK_SIZE" => STACK.to_s})
    pids
  end

  def page = JSON.parse(Net::HTTP.get(URI("http://127.0.0.1:#{@port}/neverblock/snapshot")))

  def test_it_goes_on_without_threads
    before = serve
    allow_no_more_threads
    clients = silent_clients
    assert_equal before, [page["pid"]], "the master cannot answer, so the worker tells of itself"
    clients.each(&:close)
    limit("unlimited")
    eventually { ready? }
    assert_equal before, pids
    eventually { page["pid"] == @pid }
    finish
  end
end
