# frozen_string_literal: true

module NB
  # The values of one label in `/metrics`: a program may make up names without end, and Prometheus
  # keeps a time series for each.
  #
  # @api private
  class Labels
    # How many characters of a name are told.
    LENGTH = 60
    # What the names beyond the limit count as.
    REST = "other"

    # @return [String] the name as it is told
    def self.text(name)
      name.to_s.encode("UTF-8", invalid: :replace, undef: :replace).scrub[0, LENGTH]
    rescue EncodingError
      REST # such as from UTF-7, which Ruby cannot convert
    end

    # @param limit [Integer] how many names are told apart
    def initialize(limit)
      @limit = limit
      @known = {}
    end

    # @param name [#to_s]
    # @return [String] the label; {REST} for a new name when there are enough
    def of(name)
      text = Labels.text(name)
      return @known.fetch(text, REST) if text == REST || @known.size >= @limit

      @known[text] ||= text
    end

    # @return [Array<String>] those that were told, and {REST}
    def all = [*@known.values, REST]

    # Tells other names from now on.
    #
    # @return [void]
    def clear = @known.clear
  end
end
