# frozen_string_literal: true

# Plain connections in a queue: threads and any scheduler can wait for one. Each process makes its
# own before its first use, in the warm-up: servers with workers fork after they have loaded the
# application, and two processes on one connection would read each other's rows.
class Pool
  def initialize(size, &connect)
    @size = size
    @connect = connect
    @lock = Mutex.new
  end

  # Waits for a connection.
  # @yieldparam connection
  def with
    idle = own
    connection = idle.pop
    yield connection
  ensure
    idle << connection if connection
  end

  private

  def own
    return @idle if @pid == Process.pid

    @lock.synchronize do
      next if @pid == Process.pid

      idle = Thread::Queue.new
      @size.times { idle << @connect.call }
      @idle = idle
      @pid = Process.pid
    end
    @idle
  end
end
