# frozen_string_literal: true

module NB
  class Server
    # What master and workers tell whoever runs them, on standard error. A message that cannot be
    # written (the disk is full, the reader of a pipe has ended) is lost; the server continues.
    #
    # @api private
    class LogWriter
      # @param out [#write]
      def initialize(out)
        @out = out
      end

      # @param text [String]
      # @return [Integer] bytes written, 0 if it was lost
      # @scheduling may wait
      def write(text)
        @out.write(text)
      rescue SystemCallError, IOError
        0
      end
    end
  end
end
