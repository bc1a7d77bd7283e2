# frozen_string_literal: true

require_relative "registry"
require_relative "offload"

# grpc waits for its completion queue in C: each batch of a call (what is sent and received with it)
# runs on a native thread. A timeout or a cancel ends the call, as in a thread. The servers of grpc
# have threads of their own and need no cure.
NB::Drivers.register("grpc", constant: "GRPC::Core::Call",
                             version: "GRPC::VERSION", versions: "~> 1.60") do |driver|
  offloaded = Module.new do
    define_method(:run_batch) do |operations|
      driver.on? ? NB::Drivers.offload(method(:cancel)) { super(operations) } : super(operations)
    end
  end
  GRPC::Core::Call.prepend(offloaded)
end
