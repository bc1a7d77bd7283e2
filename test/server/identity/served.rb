# frozen_string_literal: true

require "socket"

# The application of the identity soak. Everything of a request (path, query, fields, body, and what
# its fiber, its upstream and its exceptions say) must carry the token of its own client; what does
# not is written to the file "strange".
module IdentityServed
  # Set by the rackup file: where "strange" lies, and the port of the upstream.
  class << self
    attr_accessor :folder, :upstream_port
  end

  # An exception that is meant for one request.
  class Late < StandardError
  end

  # As Thin's deferrable body: keeps the block of its each.
  class Kept
    LIST = [] # rubocop:disable Style/MutableConstant -- blocks of responses that have ended

    def initialize(token, body)
      @token = token
      @body = body
    end

    def each(&block)
      LIST << block
      write_late if LIST.size > 100
      yield @body
    end

    # A block that an earlier response gave out: nothing of it may come anywhere.
    def write_late
      LIST.shift.call(@token * 3)
      IdentityServed.strange("a block outlived its response", @token)
    rescue IOError
      nil
    end
  end

  module_function

  def strange(place, got)
    File.write("#{IdentityServed.folder}/strange", "#{place}: #{got.inspect[0, 300]}\n", mode: "a")
  end

  def same(place, token, got)
    strange(place, [token, got]) unless got == token
  end

  def call(env)
    _, kind, token, size = env["PATH_INFO"].split("/")
    locals(nil)
    own(env, token)
    Thread.current[:token] = token
    Fiber[:token] = token if Fiber.respond_to?(:[]=)
    answer(kind, env, token, size.to_i)
  rescue Late => error
    same("an exception of another request", token, error.message)
    [200, fields(token), ["late"]]
  ensure
    locals(token)
  end

  def locals(token)
    same("fiber local", token, Thread.current[:token])
    same("fiber storage", token, Fiber[:token]) if Fiber.respond_to?(:[]=)
  end

  def own(env, token)
    same("query", token, env["QUERY_STRING"])
    same("field", token, env["HTTP_X_TOKEN"])
    same("cookie", token, env["HTTP_COOKIE"])
    same("log", token, env["HTTP_X_REQUEST_ID"])
  end

  def fields(token)
    {"content-type" => "text/plain", "date" => "Thu, 01 Jan 1970 00:00:00 GMT", "x-token" => token}
  end

  def answer(kind, env, token, size) # rubocop:disable Metrics -- a line for each kind
    body = token * size
    case kind
    when "array" then [200, fields(token), [body]]
    when "echo" then [200, fields(token), [read(env, token)]]
    when "sleep" then sleep(0.005) && [200, fields(token), [body]]
    when "upstream" then [200, fields(token), [upstream(token) * size]]
    when "each" then [200, fields(token), body.scan(/.{1,1600}/m).each]
    when "kept" then [200, fields(token), Kept.new(token, body)]
    when "stream" then [200, fields(token), ->(out) { stream(out, env, size) }]
    when "thread" then [200, fields(token), ->(out) { Thread.new { stream(out, env, size) } }]
    when "hijack" then hijack(env, body)
    when "fork" then Process.wait(fork { exit!(0) }) && [200, fields(token), [body]]
    when "late" then late(token) || [200, fields(token), [body]]
    when "slow" then sleep(5) && [200, fields(token), [body]]
    when "raise" then raise token
    end
  end

  # Two fibers read it, as frameworks and their middleware do.
  def read(env, token)
    parts = Thread::Queue.new
    2.times { Fiber.schedule { parts << env["rack.input"].read.to_s } }
    body = parts.pop + parts.pop
    same("body", token * (body.bytesize / token.bytesize), body)
    body
  end

  def stream(out, env, size)
    token = env["HTTP_X_TOKEN"]
    (size / 50).times { out.write(token * 50) && sleep(0.0005) }
    out.write(token * (size % 50))
    same("env of a stream", token, env["QUERY_STRING"])
  rescue SystemCallError, IOError
    nil # its client hung up
  ensure
    out.close
  end

  def hijack(env, body)
    env["rack.hijack"].call.tap do |io|
      io.write("HTTP/1.1 200 OK\r\nconnection: close\r\n",
        "content-length: #{body.bytesize}\r\n\r\n", body)
      io.close
    end
    [200, {}, []]
  end

  # What meets a request that waits no more dies with it.
  def late(token)
    Fiber.scheduler.fiber_interrupt(Fiber.current, Late.new(token))
  end

  def upstream(token)
    TCPSocket.open("127.0.0.1", IdentityServed.upstream_port) do |socket|
      socket.write("#{token}\n")
      socket.gets.to_s.chomp.tap { |got| same("upstream", token, got) }
    end
  end
end
