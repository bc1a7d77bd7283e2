# frozen_string_literal: true

require_relative "registry"
require_relative "offload"

# patron before 1.0 waits inside curl_easy_perform: a request runs on a native thread, with its
# progress block. A timeout or a cancel ends it, as in a thread. 1.0 (Ruby 3.3 and later) waits
# through Ruby's scheduler and needs no cure.
NB::Drivers.register("patron", constant: "Patron::Session",
                               version: "Patron::VERSION", versions: [">= 0.13", "< 2"]) do |driver|
  next if Gem::Version.new(Patron::VERSION) >= Gem::Version.new("1.0")

  offloaded = Module.new do
    define_method(:handle_request) do |request|
      next super(request) unless driver.on?

      NB::Drivers.offload(method(:interrupt)) { super(request) }
    end
  end
  Patron::Session.prepend(offloaded)
end
