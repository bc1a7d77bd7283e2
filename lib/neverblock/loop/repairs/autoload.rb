# frozen_string_literal: true

# Autoload on Ruby 3.1 tells threads apart, but not fibers: while one fiber loads the file, all
# others of the thread get NameError for the constant (from 3.2 on they wait). So in a loop, the
# `require` of an autoload lets no other fiber run until the file is loaded.
module NB
  module Repairs
    # The paths that autoload will pass to `require`.
    AUTOLOADED = {} # rubocop:disable Style/MutableConstant
    private_constant :AUTOLOADED

    class << self
      # @return [Boolean]
      # @api private
      def autoloaded?(path) = AUTOLOADED.key?(path)

      # @return [void]
      # @api private
      def note_autoload(path) = main? && AUTOLOADED[path.to_s] = true

      # The autoloads that were set up before ours.
      # @return [void]
      # @api private
      def note_all_autoloads
        names = Module.instance_method(:constants) # some modules define their own
        path_of = Module.instance_method(:autoload?)
        ObjectSpace.each_object(Module) do |owner|
          names.bind_call(owner, false).each do |name|
            path = path_of.bind_call(owner, name, false)
            note_autoload(path) if path
          end
        end
      end
    end

    repair(Module, :autoload) do |original|
      proc do |name, path|
        Repairs.note_autoload(path)
        __send__(original, name, path)
      end
    end

    Native.note_autoloads

    repair(Kernel, :require) do |original|
      proc do |path|
        next __send__(original, path) unless Repairs.loop_here && Repairs.autoloaded?(path)

        load = -> { __send__(original, path) }
        Native::BLOCKING ? Native.blocking(&load) : ::Fiber.new(blocking: true, &load).resume
      end
    end

    note_all_autoloads
  end
end
