# frozen_string_literal: true

module NB
  module CLI
    # Text of others, such as the path of a request, as a terminal may show it. What moves a cursor,
    # changes the direction of writing or has no width of its own is written out, and so is all that
    # a terminal may show in two columns: then each character takes one.
    #
    # @api private
    module Printable
      # What is shown as it is: ASCII, Latin letters, and the ellipsis that cuts a path.
      PLAIN = /[^\u0020-\u007e\u00a1-\u00ac\u00ae-\u024f\u2026]/
      private_constant :PLAIN

      module_function

      # @param text [#to_s]
      # @return [String] in UTF-8, of characters that take one column each
      def text(text)
        text.to_s.dup.force_encoding(Encoding::UTF_8).scrub("?").gsub(PLAIN) do |character|
          format(character.ord < 0x100 ? "\\x%02x" : "\\u{%x}", character.ord)
        end
      end

      # @param text [String] of several lines
      # @return [String]
      def lines(text) = text.each_line(chomp: true).map { |line| self.text(line) }.join("\n")

      # @param width [Integer] columns, 0 or more
      # @return [String] at most so wide; what is cut off is told by …
      def cut(text, width)
        return text if text.size <= width

        width.positive? ? "#{text[0, width - 1]}…" : ""
      end
    end
  end
end
