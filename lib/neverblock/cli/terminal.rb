# frozen_string_literal: true

module NB
  module CLI
    # What a terminal can show.
    #
    # @api private
    module Terminal
      module_function

      # @param io [IO]
      # @return [Boolean] whether lines on it can be written again
      def live?(io) = io.tty? && ENV["TERM"] != "dumb"

      # @param io [IO]
      # @return [Boolean] whether what is printed there has colors
      # @see https://no-color.org
      def colors?(io) = live?(io) && ENV["NO_COLOR"].to_s.empty?

      # @param io [IO]
      # @param unknown [Integer] what to take where nobody knows
      # @return [Integer] characters of a line
      def width(io, unknown: 80)
        require "io/console"
        io.tty? ? io.winsize.last.nonzero? || unknown : unknown
      rescue SystemCallError
        unknown
      end
    end
  end
end
