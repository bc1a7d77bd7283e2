# frozen_string_literal: true

module NB
  # Text of any origin, such as the name of a task or a path, as a part of a report.
  #
  # @api private
  module Legible
    # What would move the cursor of a terminal, or begin another line.
    CONTROLS = /[\u0000-\u001f\u007f-\u009f]/
    # Text of files and of clients that is not known to be text.
    UNKNOWN = [Encoding::BINARY, Encoding::US_ASCII].freeze
    private_constant :CONTROLS, :UNKNOWN

    module_function

    # @param text [#to_s] in any encoding
    # @return [String] in UTF-8, so it can be joined with others
    def text(text) = utf8(text.to_s).scrub

    # @param text [#to_s] in any encoding
    # @return [String] one line in UTF-8
    def line(text) = text(text).gsub(CONTROLS) { |control| format("\\x%02x", control.ord) }

    def utf8(text)
      return text.dup.force_encoding(Encoding::UTF_8) if UNKNOWN.include?(text.encoding)

      text.encode(Encoding::UTF_8, invalid: :replace, undef: :replace)
    rescue EncodingError # for example UTF-7, which Ruby cannot convert
      text.dup.force_encoding(Encoding::UTF_8)
    end
    private_class_method :utf8
  end
end
