# frozen_string_literal: true

require_relative "registry"
require_relative "any_ractor"
require_relative "../loop/offload"

# bcrypt computes for tenths of a second: Devise and has_secure_password at each sign-in. From
# 3.1.18 on it releases the GVL meanwhile, so that other threads go on; in a loop, it computes on a
# native thread, so that other fibers do. Older versions keep the GVL, there or here.
module NB
  module Drivers
    # Prepended to what computes in BCrypt::Engine, which works in any Ractor.
    module BCryptHash
      extend AnyRactor

      class << self
        # Applies the cure.
        #
        # @api private
        def install(driver)
          self.driver = driver
          ::BCrypt::Engine.singleton_class.prepend(self)
        end
      end

      private

      def __bc_crypt(secret, salt)
        return super unless BCryptHash.in_loop?

        NB.offload { super }
      end
    end
  end
end

NB::Drivers.register("bcrypt", constant: "BCrypt::Engine") do |driver|
  NB::Drivers::BCryptHash.install(driver)
end
