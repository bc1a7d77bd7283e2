# frozen_string_literal: true

module NB
  class Server
    # What clients send is bytes; logs and JSON want text. Nothing is lost: what is no text is
    # written as its bytes, `\xff`.
    #
    # @api private
    module Text
      # A quote or a line's end in a value would end the field or the line.
      UNSAFE = /[^ !#-\[\]-~]/n
      private_constant :UNSAFE

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
        text.valid_encoding? ? text : ascii(value).force_encoding(Encoding::UTF_8)
      end
    end
  end
end
