# frozen_string_literal: true

# rubocop:disable Layout/LineLength -- a script or an expectation each, better on one line

# Keeps every warning that Ruby prints while tests run; a test with one that it did not expect fails.
module Warnings
  @seen = []

  class << self
    # @return [Array<String>] the warnings since the last call
    def take = @seen.slice!(0..)

    def note(message)
      @seen << message
      $stderr.write(message)
    end
  end

  # Goes in front of Warning.warn.
  module Recorder
    def warn(message, **) = Warnings.note(message)
  end
end

Warning.singleton_class.prepend(Warnings::Recorder)
# rubocop:enable Layout/LineLength
