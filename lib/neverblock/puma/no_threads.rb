# frozen_string_literal: true

module NB
  module Puma
    # Methods that Puma calls on a pool because it has threads: to make, trim and reap them. Fibers
    # need none of this.
    #
    # @api private
    module NoThreads
      # Nothing to reap: ended fibers are replaced when needed.
      # @return [nil]
      def auto_reap!(*) = nil
      # Nothing to trim: idle fibers are few and cost one stack each.
      # @return [nil]
      def auto_trim!(*) = nil
      # @return [nil] see {#auto_trim!}
      def trim(*) = nil
      # @return [nil] see {#auto_reap!}
      def reap = nil
      # @return [nil] fibers are made when work comes
      def spawn_thread_if_needed = nil
    end

    # Passed to Puma's block as the processing thread; a fiber needs no further threads.
    class Processor
      # Puma asks for it; every fiber here may wait.
      # @return [nil]
      def mark_as_io_thread! = nil
      def marked_as_io_thread? = false
    end
  end
end
