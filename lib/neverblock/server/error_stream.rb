# frozen_string_literal: true

module NB
  class Server
    # The rack.errors of a log that can only `write`: Rack asks for `puts` and `flush`, too.
    #
    # @api private
    class ErrorStream
      # @param log [#write]
      # @return [#puts, #write, #flush] the log itself if it can do all of that
      def self.of(log)
        %i[puts write flush].all? { |name| log.respond_to?(name) } ? log : new(log)
      end

      def initialize(log)
        @log = log
      end

      # @param text [String]
      def write(text) = @log.write(text)

      # @param text [#to_s] gets a line end, unless it has one
      # @return [nil]
      def puts(text)
        line = text.to_s
        @log.write(line.end_with?("\n") ? line : "#{line}\n")
        nil
      end

      # @return [self]
      def flush
        @log.flush if @log.respond_to?(:flush)
        self
      end
    end
  end
end
