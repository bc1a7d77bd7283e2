# frozen_string_literal: true

require_relative "registry"
require_relative "offload"

# ethon (typhoeus) calls libcurl through FFI: curl_easy_perform waits inside, and the multi
# interface in curl_multi_poll, curl_multi_wait or select. These calls run on a native thread.
# Blocks for headers and bodies are called there, `on_complete` in the fiber.
NB::Drivers.register("ethon", constant: "Ethon::Multi", features: %w[ethon typhoeus],
                              version: "Ethon::VERSION", versions: "~> 0.16") do |driver|
  offloaded = Module.new do
    (%i[easy_perform multi_poll multi_wait select] & Ethon::Curl.methods).each do |call|
      define_method(call) do |*arguments|
        driver.on? ? NB::Drivers.offload { super(*arguments) } : super(*arguments)
      end
    end
  end
  Ethon::Curl.singleton_class.prepend(offloaded)
end
