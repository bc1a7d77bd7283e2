# frozen_string_literal: true

require_relative "errors"
require_relative "legible"

module NB
  # Reports of errors that nobody waits for, on stderr.
  #
  # @api private
  module ErrorReport
    module_function

    # Writes one report, in one write, so reports of several threads do not mix. If stderr cannot
    # be written (nobody reads it, it is closed, its disk is full), the report is lost and nothing
    # else: Ruby's own reports of threads do not disturb the rest of the program either.
    #
    # @param title [String] who ended, and how
    # @param error [Exception]
    # @return [void]
    # @raise [Exception] what strikes the caller while it waits, such as a timeout or a cancel
    # @scheduling may wait
    # @thread any
    def write(title, error) = tell("#{title}:\n#{text(error)}")

    # Writes lines, also under ruby -W0, where `warn` writes nothing.
    #
    # @param lines [String]
    # @return [void]
    # @raise [Exception] as {write}
    # @scheduling may wait
    # @thread any
    def tell(lines)
      $stderr.write(lines)
      nil
    rescue *FAILURES => failure
      raise if struck?(failure)
    end

    # @param error [Exception]
    # @return [String] in UTF-8
    def text(error)
      Legible.text(error.full_message)
    rescue StandardError => raised
      "#{error.class} (its message raises #{raised.class})\n"
    end
    private_class_method :text

    def struck?(failure)
      scheduler = Fiber.scheduler
      scheduler.respond_to?(:struck?) && scheduler.struck?(failure)
    end
    private_class_method :struck?
  end
end
