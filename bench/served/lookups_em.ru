# frozen_string_literal: true

# The page of lookups.ru as the article has it: a fiber for each request, which callbacks of
# EventMachine resume; its loop watches the sockets of mysql2.

require "json"
require "mysql2/em"
require "socket"

NUMBERS = (100_001..200_000).freeze
COUNTED = %i[count time total_allocated_objects].freeze
MARIADB = { host: "127.0.0.1", port: Integer(ENV.fetch("BENCH_PORT")), username: "nb",
            password: "secret", database: "nb" }.freeze
POOL = Array.new(Integer(ENV.fetch("BENCH_POOL"))) { Mysql2::EM::Client.new(MARIADB) }
WAITING = [] # rubocop:disable Style/MutableConstant -- fibers in their order

# Of ten thousand clients at once the kernel drops what finds no room in the listener's queue.
# EventMachine's has 100 places and no option; a second listen(2) changes that.
BACKLOG = 4096
LISTENERS = lambda do
  Dir.children("/proc/self/fd").filter_map do |fd|
    socket = Socket.for_fd(Integer(fd)).tap { |one| one.autoclose = false }
    socket if socket.getsockopt(:SOCKET, :ACCEPTCONN).bool
  rescue SystemCallError
    nil # no socket
  end
end

def with_connection
  connection = POOL.pop || (WAITING << Fiber.current).then { Fiber.yield }
  yield connection
ensure
  if (fiber = WAITING.shift)
    EventMachine.next_tick { fiber.resume(connection) }
  else
    POOL << connection
  end
end

def name_of(id, connection)
  fiber = Fiber.current
  query = connection.query("select name from things where id = #{id}")
  query.callback { |result| fiber.resume(result) }
  query.errback { |error| fiber.resume(error) }
  answer = Fiber.yield
  answer.is_a?(Exception) ? raise(answer) : answer.first.fetch("name")
end

def page
  ids = Array.new(3) { rand(NUMBERS) }
  names = with_connection { |connection| ids.map { |id| name_of(id, connection) } }
  answer(200, JSON.generate(ids: ids, names: names))
rescue Mysql2::Error => error
  answer(500, error.message)
end

def answer(status, body)
  [status, { "content-type" => "application/json", "content-length" => body.bytesize.to_s }, [body]]
end

# The application is asked before others are, with "/hello", whether it runs.
run(lambda do |env|
  if env["PATH_INFO"] == "/hello"
    LISTENERS.call.each { |socket| socket.listen(BACKLOG) }
    next answer(200, "Hello")
  end
  next answer(200, JSON.generate(GC.stat.slice(*COUNTED))) if env["PATH_INFO"] == "/gc"

  Fiber.new { env["async.callback"].call(page) }.resume
  throw :async
end)
