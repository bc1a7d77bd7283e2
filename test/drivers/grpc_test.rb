# frozen_string_literal: true

require_relative "../support/transparency"
require_relative "../support/clock"
require_relative "../support/grpc_server"
require_relative "../support/timing"

# grpc: C++ with its own threads and sockets.
class GRPCTest < Transparency
  include Clock

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

  # The server would answer after 5 s.
  INTERRUPTIONS = {
    "NB.timeout" => ->(work) { NB.timeout(0.1) { work.call } },
    "Timeout.timeout" => ->(work) { Timeout.timeout(0.1) { work.call } },
    "a cancel" => ->(work) { NB.async { work.call }.tap { sleep 0.1 }.cancel.value }
  }.freeze

  INTERRUPTIONS.each do |name, interrupt|
    { call: ->(stub, text) { stub.ask(text) },
      stream: ->(stub, text) { stub.ask_thrice(text).to_a } }.each do |kind, ask|
      define_method("test_#{name}_ends_a_#{kind}_as_in_a_thread") do
        stub = stub(server.port)
        NB.run do
          took = seconds do
            assert_raises(Timeout::Error, NB::TaskCancelledError) do
              interrupt.call(-> { ask.call(stub, SlowTexts::Text.new("5000")) })
            end
          end
          assert_in_time took, 2
          assert_equal "done", ask(stub, 0)
        end
      end
    end
  end

  def closes? = false

  private

  def stub(port) = SlowTexts::Stub.new("127.0.0.1:#{port}", :this_channel_is_insecure)

  def ask(stub, ms, **options) = stub.ask(SlowTexts::Text.new(ms.to_s), **options).text
end
