# frozen_string_literal: true

require_relative "../native"
require_relative "../errors"
require_relative "../sync/check"
require_relative "profile/entry"
require_relative "profile/report"
require_relative "profile/speedscope"

module NB
  # Where the time of a loop goes: what its fibers wait for, at which lines and for how long, and
  # what its thread does meanwhile. Waits and garbage collection are measured; on Ruby 3.2 and later
  # also waits for the GVL and outside the loop. What the thread computes is sampled by its own
  # CPU time: every millisecond, or as often as the kernel looks (usually every 4 ms).
  #
  # `nb profile script.rb` and `nb serve --profile` profile a whole program.
  #
  # @example
  #   profile = NB::Profile.record { NB.run { NB.map(urls) { |url| Net::HTTP.get(url) } } }
  #   puts profile
  #   File.write("profile.speedscope.json", profile.speedscope)
  class Profile
    # Raised if the process is profiled already, or if something else handles SIGPROF.
    class BusyError < ::RuntimeError
      include Error
    end

    # Seconds of CPU time between two samples.
    INTERVAL = 0.001
    # @return [Hash{Symbol=>Float}] seconds: `took`; of these `computed`, `slept`, `garbage`, `gvl`,
    #   `outside`, and `rest`, of which nothing is known
    attr_reader :totals
    # @return [Array<Entry>] the longest total first
    attr_reader :entries

    class << self
      # Profiles the loop of the calling thread while the block runs.
      #
      # @return [Profile]
      # @raise [BusyError] when the process has a profile already, or a handler of SIGPROF
      # @scheduling as the block
      def record(&block)
        Check.block("NB::Profile.record", block)
        start
        begin
          yield
          profile = stop
        ensure
          Native.profile_stop unless profile # which may be another one's by now
        end
      end

      # Profiles the loop of the calling thread from now on.
      #
      # @return [void]
      # @raise [BusyError] when the process has a profile already, or a handler of SIGPROF
      # @scheduling never waits
      def start
        raise BusyError, BUSY unless Native.profile_start((INTERVAL * 1e9).to_i)
      end

      # Ends the profile. To be called on the thread that called {start}; once that thread has
      # ended, on any.
      #
      # @return [Profile, nil] nil if there was none in this process
      # @raise [NB::WrongThreadError] on another thread
      # @scheduling never waits
      def stop = Native.profile_stop ? new(Native.profile_read) : nil
    end

    BUSY = "NB::Profile: this process is profiled already, or something else handles SIGPROF: " \
           "end that first"
    private_constant :BUSY

    # @param read [Hash] from Native.profile_read
    # @api private
    def initialize(read)
      @entries = Entry.read(*read.values_at(:stacks, :names)).sort_by { |one| -one.total }
      seconds = read.except(:stacks, :names).transform_values { |ns| ns / 1e9 }
      known = seconds.values_at(:cpu, :slept, :garbage, :gvl, :outside).sum
      @totals = {took: seconds[:took], computed: seconds[:cpu],
                 **seconds.slice(:slept, :garbage, :gvl, :outside),
                 rest: [seconds[:took] - known, 0.0].max}
    end

    # @return [String] tables: the thread's time, the fibers, what they waited for, what computed
    # @scheduling never waits
    def to_s = Report.new(self).to_s

    # @return [String] JSON for https://www.speedscope.app: a flame graph of all the fibers' time,
    #   and one of the thread's
    # @scheduling never waits
    def speedscope = Speedscope.new(self).to_s
  end
end
