# frozen_string_literal: true

require_relative "program"

# Files that hold large bodies. The kernel frees one with its last descriptor: a gigabyte in 200 ms.
class ServerSpoolTest < Minitest::Test
  include ServerProgram

  # What the server holds when its request is answered: threads for offloaded work.
  RACKUP = <<~RUBY
    run lambda { |env|
      env["rack.input"]&.read
      [200, {}, [Fiber.scheduler.stats[:offload_threads].to_s]]
    }
  RUBY

  def setup
    super
    File.write("#{@dir}/config.ru", RACKUP)
    start
  end

  def post(size, sent: size)
    UNIXSocket.open(@socket) do |socket|
      socket.write("POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n",
                   "Content-Length: #{size}\r\n\r\n", "x" * sent)
      socket.read if sent == size
    end
  end

  def threads = post(0)[/\d+\z/].to_i

  def test_a_large_one_is_freed_beside_the_loop_and_a_small_one_at_once
    post(2_000_000)
    assert_equal 0, threads
    post(8_000_000)
    assert_equal 1, threads
  end

  def test_so_is_that_of_a_client_that_leaves
    post(8_000_000, sent: 7_000_000)
    eventually { threads == 1 }
  end
end
