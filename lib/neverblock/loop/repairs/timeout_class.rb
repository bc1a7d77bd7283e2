# frozen_string_literal: true

require "timeout"

# Timeout.timeout(seconds, Timeout::Error). A class that is given can be rescued inside the block;
# what Timeout raises without one cannot. But Timeout (all versions) hands Timeout::Error to a
# scheduler in both cases. Here a class that is given goes there as an exception.
module NB
  module Repairs
    # @return what to raise in the block
    # @api private
    def self.timeout_error(klass, message)
      return klass unless klass.equal?(Timeout::Error) && loop_here

      Timeout::Error.new(message || "execution expired")
    end

    [Timeout.singleton_class, Timeout].each do |owner|
      next unless owner.instance_method(:timeout).arity == -2 # newer versions pass all on

      keep(owner, :timeout_without_neverblock, :timeout)
      visibility = owner.private_method_defined?(:timeout) ? :private : :public
      owner.alias_method(:timeout, :timeout) # keeps Ruby from warning about the redefinition
      # A method with `def` passes its block on without making a Proc of it.
      owner.class_eval do
        def timeout(sec, klass = nil, message = nil, &block) # :nodoc:
          klass = NB::Repairs.timeout_error(klass, message) if klass
          timeout_without_neverblock(sec, klass, message, &block)
        end
      end
      owner.send(visibility, :timeout)
    end
  end
end
