# frozen_string_literal: true

module NB
  # The values of one label in `/metrics`, limited in number: a program may make up names without
  # end, and Prometheus keeps a time series for each.
  #
  # @api private
  class Labels
    # How many characters of a name are kept.
    LENGTH = 60
    # The label of all names beyond the limit.
    REST = "other"

    # @return [String] the name in the form that is shown
    def self.text(name)
      name.to_s.encode("UTF-8", invalid: :replace, undef: :replace).scrub[0, LENGTH]
    rescue EncodingError
      REST # for example UTF-7, which Ruby cannot convert
    end

    # @param limit [Integer] how many names have a label of their own
    def initialize(limit)
      @limit = limit
      @known = {}
    end

    # @param name [#to_s]
    # @return [String] the label; {REST} for a new name beyond the limit
    def of(name)
      text = Labels.text(name)
      return @known.fetch(text, REST) if text == REST || @known.size >= @limit

      @known[text] ||= text
    end

    # @return [Array<String>] all labels so far, and {REST}
    def all = [*@known.values, REST]

    # Forgets all names.
    #
    # @return [void]
    def clear = @known.clear
  end
end
