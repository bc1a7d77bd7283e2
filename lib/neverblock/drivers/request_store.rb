# frozen_string_literal: true

require_relative "../sync/inheritance"
require_relative "registry"

# request_store keeps a request's values in locals of its fiber. PaperTrail keeps its `whodunnit`
# there, in a Hash: a version that a fiber of the request writes would name nobody. With this cure
# the fibers of {NB.gather}, {NB.async} and the like begin with a copy of the store and of its
# Hashes and lists.
NB::Drivers.register("request_store", constant: "RequestStore", version: "RequestStore::VERSION",
                                      versions: [">= 1.2", "< 2"]) do |driver|
  NB::Inheritance.add do
    store = NB::Inheritance.copies(RequestStore.store) if driver.on?
    active = RequestStore.active? if store
    next if store.nil? || (store.empty? && !active)

    lambda do |block|
      RequestStore.store.replace(store)
      RequestStore.begin! if active
      block.call
    end
  end
end
