# frozen_string_literal: true

require "grpc"

# A gRPC service without Protocol Buffers: a text is asked, and answered after so many milliseconds,
# once or three times.
module SlowTexts
  # What goes over the wire.
  class Text
    attr_reader :text

    def initialize(text) = @text = text
    def self.dump(message) = message.text
    def self.load(bytes) = new(bytes)
  end

  # What is answered.
  class Service
    include GRPC::GenericService
    self.marshal_class_method = :dump
    self.unmarshal_class_method = :load
    self.service_name = "slow.Texts"
    rpc :Ask, Text, Text
    rpc :AskThrice, Text, stream(Text)

    def ask(question, _)
      sleep Integer(question.text) / 1000.0
      Text.new("done")
    end

    def ask_thrice(question, _)
      Enumerator.new { |answers| 3.times { answers << ask(question, nil) } }
    end
  end
  Stub = Service.rpc_stub_class
end

if $PROGRAM_NAME == __FILE__
  server = GRPC::RpcServer.new(pool_size: 200)
  server.add_http2_port("127.0.0.1:#{ARGV.first}", :this_port_is_insecure)
  server.handle(SlowTexts::Service.new)
  server.run_till_terminated_or_interrupted(%w[TERM INT])
end
