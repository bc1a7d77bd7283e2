# frozen_string_literal: true

module NB
  module CLI
    # What a terminal can show, and what its user can call.
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

      # @param program [String]
      # @return [String, nil] where the shell would find it
      def path(program)
        places = ENV.fetch("PATH", "").split(File::PATH_SEPARATOR)
        places.map { |place| File.join(place, program) }.find { |path| File.executable?(path) }
      end

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
