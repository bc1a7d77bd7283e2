# frozen_string_literal: true

require_relative "origin"
require_relative "registry"

# stomp waits in the loop by itself, and reads in a thread of its own. This thread raises the
# broker's errors in the thread that has made the client; in a loop, in the fiber.
module NB
  module Drivers
    # Prepended to Stomp::Client.
    module StompErrors
      # Works like stomp's own method, whose block keeps the thread in a variable.
      def create_error_handler
        super.tap do
          if STOMP.on?
            @parameters[:client_main] = Origin.here
            @error_listener.binding.local_variable_set(:client_thread, @parameters[:client_main])
          end
        end
      end
    end

    register("stomp", constant: "Stomp::Client", version: "Stomp::Version::STRING",
                      versions: "~> 1.4") do |driver|
      const_set(:STOMP, driver)
      ::Stomp::Client.prepend(StompErrors)
    end
  end
end
