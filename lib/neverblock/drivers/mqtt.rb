# frozen_string_literal: true

require_relative "origin"
require_relative "registry"

# mqtt waits in the loop by itself, and reads in a thread of its own. When the connection breaks,
# this thread raises an exception in the thread that has connected; in a loop, in the fiber.
module NB
  module Drivers
    # Prepended to MQTT::Client.
    module MQTTErrors
      # Works like mqtt's own method.
      def connect(*)
        @neverblock_origin = (Origin.here if MQTT.on?)
        super
      end

      private

      # Works like mqtt's own method, which the reading thread calls.
      def receive_packet
        Thread.current[:parent] = @neverblock_origin if @neverblock_origin
        super
      end
    end

    # It loads its classes when they are first used.
    register("mqtt", constant: "MQTT::NotConnectedException", version: "MQTT::VERSION",
                     versions: [">= 0.4", "< 1"]) do |driver|
      const_set(:MQTT, driver)
      ::MQTT::Client.prepend(MQTTErrors)
    end
  end
end
