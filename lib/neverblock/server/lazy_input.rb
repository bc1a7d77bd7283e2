# frozen_string_literal: true

require "stringio"

module NB
  class Server
    # The rack.input of a request with "Expect: 100-continue": the first read tells the client to go
    # on and fetches the body. An application that answers without reading never gets it sent.
    class LazyInput
      # @api private
      def initialize(exchange)
        @exchange = exchange
      end

      # As IO#read. @scheduling may wait
      def read(...) = input.read(...)

      # As IO#gets. @scheduling may wait
      def gets(...) = input.gets(...)

      # As IO#each. @scheduling may wait
      def each(&block)
        block ? input.each(&block) && self : to_enum
      end

      # As IO#rewind. @scheduling may wait
      def rewind = input.rewind

      # As IO#size. @scheduling may wait
      def size = input.size

      # As IO#close. @scheduling never waits
      def close = @input&.close

      # @return [String] what was fetched and not read, as of {StreamedInput}: nothing is kept here
      # @api private
      def unread = ""

      # All else that a File and a StringIO can do. @scheduling may wait
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
