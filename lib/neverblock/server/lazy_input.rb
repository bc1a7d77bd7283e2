# frozen_string_literal: true

require "stringio"

module NB
  class Server
    # The rack.input of a request with "Expect: 100-continue": the first read asks the client for
    # the body. If an application answers without reading, the client never sends it.
    class LazyInput
      # @api private
      def initialize(exchange)
        @exchange = exchange
      end

      # The same as IO#read. @scheduling may wait
      def read(...) = input.read(...)

      # The same as IO#gets. @scheduling may wait
      def gets(...) = input.gets(...)

      # The same as IO#each. @scheduling may wait
      def each(*ends, chomp: false, &block)
        return to_enum(:each, *ends, chomp: chomp) unless block

        input.each(*ends, chomp: chomp, &block) && self
      end

      # The same as IO#rewind. @scheduling may wait
      def rewind = input.rewind

      # The same as IO#size. @scheduling may wait
      def size = input.size

      # The same as IO#close. @scheduling never waits
      def close = @input&.close

      # @return [String] fetched but unread bytes, as for {StreamedInput}: always empty here
      # @api private
      def unread = ""

      # The other methods of File and StringIO. @scheduling may wait
      def method_missing(name, ...)
        respond_to_missing?(name) ? input.public_send(name, ...) : super
      end

      # @return [Boolean]
      def respond_to_missing?(name, _private = false)
        File.public_method_defined?(name) && StringIO.public_method_defined?(name)
      end

      private

      def input = @input ||= @exchange.body
    end
  end
end
