# frozen_string_literal: true

require "digest"
require "neverblock/server"

# The server of the soak: `ruby served.rb FOLDER` listens at FOLDER/app.sock and on a port that it
# writes to FOLDER/port; a line "stats" on stdin is answered by one line of JSON.
module SoakServed
  BYTES = Random.new(1).bytes(2 << 20).freeze
  TEXT = {"content-type" => "text/plain"}.freeze
  LIMITS = {fibers: 64, queue: 256, header_timeout: 8, body_timeout: 8, idle_timeout: 15,
            write_timeout: 15, request_timeout: 30, body_bytes: 1 << 20, body_memory_bytes: 20_000,
            header_bytes: 16_384, connections: 600}.freeze

  # What a path asks for; both sides know what the answer must be.
  def self.call(env)
    _, kind, size = env["PATH_INFO"].split("/")
    size = size.to_i
    case kind
    when "array" then [200, TEXT, [BYTES.byteslice(0, size)]]
    when "each" then [200, TEXT, parts(size).each]
    when "stream" then [200, TEXT, ->(stream) { write(stream, parts(size)) }]
    when "file" then [200, TEXT, File.open(@file, "rb")]
    when "sleep" then sleep(size / 1000.0) && [200, TEXT, [size.to_s]]
    when "echo" then [200, TEXT, [Digest::SHA256.hexdigest(env["rack.input"].read)]]
    when "unread" then [200, TEXT, ["unread"]]
    when "raise" then raise "on purpose"
    when "mid" then [200, TEXT, Enumerator.new { |out| out << "part" and raise "on purpose" }]
    when "short" then [200, TEXT.merge("content-length" => "100"), %w[short].each]
    else [404, TEXT, ["no such thing"]]
    end
  end

  def self.parts(size) = BYTES.byteslice(0, size).scan(/.{1,5000}/mn)

  def self.write(stream, parts)
    parts.each { |part| stream.write(part) && Fiber.scheduler && sleep(0) }
  ensure
    stream.close
  end

  def self.run(folder)
    File.binwrite(@file = "#{folder}/file", BYTES)
    server = NB::Server.new(method(:call), bind: ["tcp://127.0.0.1:0", "unix://#{folder}/app.sock"],
      log: nil, access_log: File.open(File::NULL, "w"), **LIMITS)
    Thread.new { answer(server) }
    trap("TERM") { server.stop }
    server.run { File.write("#{folder}/port", server.port.to_s) }
  end

  def self.answer(server)
    while $stdin.gets
      GC.start
      $stdout.puts(JSON.generate(server.stats))
      $stdout.flush
    end
  end
end

if $PROGRAM_NAME == __FILE__
  require "json"
  SoakServed.run(ARGV.fetch(0))
end
