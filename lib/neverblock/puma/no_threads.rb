# frozen_string_literal: true

module NB
  module Puma
    # What Puma asks of a pool because it has threads: to make, trim and reap them. Fibers need none
    # of it.
    #
    # @api private
    module NoThreads
      # Nothing to reap: fibers that end are made anew.
      # @return [nil]
      def auto_reap!(*) = nil
      # Nothing to trim: idle fibers cost a stack each and are few.
      # @return [nil]
      def auto_trim!(*) = nil
      # @return [nil] see {#auto_trim!}
      def trim(*) = nil
      # @return [nil] see {#auto_reap!}
      def reap = nil
      # @return [nil] fibers are made when work comes
      def spawn_thread_if_needed = nil
    end

    # Given to Puma's block as the thread that processes; a fiber needs no more threads.
    class Processor
      # Puma asks for it; every fiber here may wait.
      # @return [nil]
      def mark_as_io_thread! = nil
      def marked_as_io_thread? = false
    end
  end
end
