# frozen_string_literal: true

require_relative "../support/transparency"
require_relative "../support/grpc_server"

# grpc: C++ with its own threads and sockets.
class GRPCTest < Transparency
  PROGRAM = File.expand_path("../support/grpc_server.rb", __dir__)

  library "grpc", group: "Mail, SSH, messages", gems: %w[grpc],
          server: -> { Servers.fetch("grpc") { |port, _| [RbConfig.ruby, PROGRAM, port.to_s] } },
          against: -> { "grpc's own server" },
          cure: "runs on native threads automatically, at most 256 at a time"

  waits "a call" do
    stub = stub(server.port)
    together { ask(stub, 0) }
    assert_equal ["done"], measure(count: 20) { ask(stub, 100) }.uniq
  end

  waits "a call with a stream of answers" do
    stub = stub(server.port)
    together { ask(stub, 0) }
    answers = measure(count: 20, delay: 0.3) do
      stub.ask_thrice(SlowTexts::Text.new("100")).map(&:text)
    end
    assert_equal [%w[done done done]], answers.uniq
  end

  waits "the library's own deadline" do
    stub = stub(server.port)
    together { ask(stub, 0) }
    errors = measure(count: 20) { outcome { ask(stub, 1000, deadline: Time.now + 0.1) } }
    assert_equal [GRPC::DeadlineExceeded], errors.map(&:first).uniq
  end

  def closes? = false

  private

  def stub(port) = SlowTexts::Stub.new("127.0.0.1:#{port}", :this_channel_is_insecure)

  def ask(stub, ms, **options) = stub.ask(SlowTexts::Text.new(ms.to_s), **options).text
end
