# frozen_string_literal: true

# Autoload on Ruby 3.1, which tells threads apart but not fibers: while one loads the file, all
# others of the thread get NameError for the constant (from 3.2 on they wait). So in a loop
# `require`, which autoload calls too, lets no other fiber run until the file is loaded.
module NB
  module Repairs
    replace(Kernel, :require) do |original|
      proc do |path|
        next original.bind_call(self, path) unless Repairs.loop_here

        ::Fiber.new(blocking: true) { original.bind_call(self, path) }.resume
      end
    end
  end
end
