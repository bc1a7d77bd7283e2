# frozen_string_literal: true

require_relative "registry"

module NB
  # The end of PTY.open's block closes both sides in C, without IO#close, so it tells no loop, and
  # fibers that wait at one of them would wait forever. Blocking Ruby raises IOError in threads.
  module Drivers
    # Applies the cure.
    #
    # @api private
    def self.close_terminals
      Repairs.repair(::PTY.singleton_class, :open) do |original|
        proc do |&block|
          next __send__(original, &block) unless block && Repairs.loop_here

          __send__(original) do |sides|
            block.call(sides)
          ensure
            sides.each(&:close)
          end
        end
      end
    end

    register("pty", constant: "PTY") { close_terminals }
  end
end
