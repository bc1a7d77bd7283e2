# frozen_string_literal: true

require_relative "registry"
require_relative "../loop/offload"

# bcrypt computes for tenths of a second: Devise and has_secure_password at each sign-in. From
# 3.1.18 on it releases the GVL meanwhile, so that other threads go on; in a loop, it computes on a
# native thread, so that other fibers do. Older versions keep the GVL, there or here.
NB::Drivers.register("bcrypt", constant: "BCrypt::Engine") do |driver|
  NB::Repairs.replace(BCrypt::Engine.singleton_class, :__bc_crypt) do |original|
    proc do |secret, salt|
      next original.bind_call(self, secret, salt) unless driver.on? && NB::Repairs.loop_here

      NB.offload { original.bind_call(self, secret, salt) }
    end
  end
end
