# frozen_string_literal: true

module NB
  class Server
    # Turns bytes that clients send into text for logs and JSON. Nothing is lost: bytes that are not
    # text are written as `\xff`.
    #
    # @api private
    module Text
      # A quote or a line end in a value would end the field or the line.
      UNSAFE = /[^ !#-\[\]-~]/n
      # Control characters that JSON leaves as they are, and that a terminal obeys: U+009B is ESC [.
      CONTROLS = /[\u0080-\u009f]/
      # What a terminal obeys, in an entry of several lines.
      COMMANDS = /[\u0000-\u0008\u000b-\u001f\u007f]/
      private_constant :UNSAFE, :CONTROLS, :COMMANDS

      module_function

      # @param value [String, nil]
      # @return [String] in ASCII, on one line; - for nil
      def ascii(value)
        return "-" if value.nil?

        value = value.to_s
        return value if value.ascii_only? && !value.match?(UNSAFE)

        value.b.gsub(UNSAFE) { |byte| format("\\x%02x", byte.ord) }
      end

      # @param value [String, nil]
      # @return [String, nil] in UTF-8
      def utf8(value)
        return if value.nil?

        text = value.to_s.dup.force_encoding(Encoding::UTF_8)
        return text if text.ascii_only?
        return ascii(value).force_encoding(Encoding::UTF_8) unless text.valid_encoding?

        text.gsub(CONTROLS) { |character| format("\\x%02x", character.ord) }
      end

      # @param value [String]
      # @return [String] in UTF-8; its further lines are indented, so that none of them looks like
      #   an entry of its own in a log
      def entry(value)
        text = utf8(value).gsub(COMMANDS) { |character| format("\\x%02x", character.ord) }
        text.gsub("\n", "\n    ")
      end
    end
  end
end
