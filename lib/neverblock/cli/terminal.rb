# frozen_string_literal: true

module NB
  module CLI
    # What a terminal can show, and which programs its user can call.
    #
    # @api private
    module Terminal
      module_function

      # @param io [IO]
      # @return [Boolean] whether lines on it can be overwritten
      def live?(io) = io.tty? && ENV["TERM"] != "dumb"

      # @param io [IO]
      # @return [Boolean] whether output to it has colors
      # @see https://no-color.org
      def colors?(io) = live?(io) && ENV["NO_COLOR"].to_s.empty?

      # @param program [String]
      # @return [String, nil] the path where the shell would find it
      def path(program)
        places = ENV.fetch("PATH", "").split(File::PATH_SEPARATOR)
        places.map { |place| File.join(place, program) }.find { |path| File.executable?(path) }
      end

      # @param io [IO]
      # @param unknown [Integer] the result if the width is unknown
      # @return [Integer] the width of a line in characters
      def width(io, unknown: 80)
        require "io/console"
        io.tty? ? io.winsize.last.nonzero? || unknown : unknown
      rescue SystemCallError
        unknown
      end
    end
  end
end
