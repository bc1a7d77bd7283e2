# frozen_string_literal: true

# rubocop:disable Layout/LineLength -- a script or an expectation each, better on one line

# Keeps every warning that Ruby prints while tests run. A test fails if there is one it did not
# expect.
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

  # Prepended to Warning.warn.
  module Recorder
    def warn(message, **) = Warnings.note(message)
  end
end

Warning.singleton_class.prepend(Warnings::Recorder)
# rubocop:enable Layout/LineLength
