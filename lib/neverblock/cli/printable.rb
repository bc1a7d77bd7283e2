# frozen_string_literal: true

module NB
  module CLI
    # Makes foreign text, such as the path of a request, safe for a terminal. Escapes whatever moves
    # the cursor, changes the writing direction or has no width of its own, and whatever a terminal
    # may show in two columns. So each character takes one column.
    #
    # @api private
    module Printable
      # Characters shown as they are: ASCII, Latin letters, and the ellipsis that shortens a path.
      PLAIN = /[^\u0020-\u007e\u00a1-\u00ac\u00ae-\u024f\u2026]/
      private_constant :PLAIN

      module_function

      # @param text [#to_s]
      # @return [String] in UTF-8; each character takes one column
      def text(text)
        text.to_s.dup.force_encoding(Encoding::UTF_8).scrub("?").gsub(PLAIN) do |character|
          format(character.ord < 0x100 ? "\\x%02x" : "\\u{%x}", character.ord)
        end
      end

      # @param text [String] of several lines
      # @return [String]
      def lines(text) = text.each_line(chomp: true).map { |line| self.text(line) }.join("\n")

      # @param width [Integer] columns, 0 or more
      # @return [String] at most this wide; … marks the cut
      def cut(text, width)
        return text if text.size <= width

        width.positive? ? "#{text[0, width - 1]}…" : ""
      end
    end
  end
end
