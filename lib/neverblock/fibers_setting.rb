# frozen_string_literal: true

module NB
  # What an application says of `fibers` for a job queue that has a number of threads beside it
  # (docs/JOBS.md): whether jobs run in fibers, and in how many.
  #
  # @api private
  module FibersSetting
    OFF = /\A(?:0+|f|false|no?|off)\z/i.freeze
    # So many does a queue start that was told nothing: Sidekiq and GoodJob.
    THREADS = 5
    private_constant :OFF, :THREADS

    module_function

    # @param given [Object] as the application has it, or as the environment does
    # @return [Integer, Boolean, nil] how many; true: as many as the queue would have threads;
    #   false: none; nil: nothing was said
    # @raise [ArgumentError]
    # @scheduling never waits
    # @thread any
    def read(given)
      case given
      when nil, "", true, false then given unless given == ""
      when Integer then count(given)
      when String then text(given)
      else refuse(given)
      end
    end

    # @param wanted [Integer] fibers
    # @param name [Symbol] of the other setting
    # @param threads [Integer] what it says
    # @return [String, nil] that this one is not used, if it is the application's own
    # @scheduling never waits
    # @thread any
    def conflict(wanted, name, threads)
      return if [wanted, THREADS, ENV["RAILS_MAX_THREADS"].to_i].include?(threads)

      "fibers: #{wanted} and #{name}: #{threads}: #{wanted} jobs run at once; leave one of the " \
        "two out"
    end

    def text(given)
      return false if given.match?(OFF)
      return true if given == "1" # as for other switches of the environment

      given.match?(/\A[-+]?\d/) ? count(Integer(given, 10)) : true
    rescue ArgumentError
      refuse(given)
    end
    private_class_method :text

    def count(number)
      refuse(number) if number.negative?
      number.positive? && number
    end
    private_class_method :count

    def refuse(given)
      raise ArgumentError, "fibers: must be true, false or a number of fibers, got: " \
                           "#{given.inspect}"
    end
    private_class_method :refuse
  end
end
