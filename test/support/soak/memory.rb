# frozen_string_literal: true

require "fiddle"
require "tempfile"

module Soak
  # What a process holds after each round, and whether that grows with what it does.
  #
  # Its resident size does not tell. If once more objects than usual are alive while Ruby collects,
  # its heap gets larger and stays so. From then on it collects half as often (6 times in a round,
  # not 11), and twice as much garbage lies in between: 67 MB before, 98 MB from then on, of which
  # 12 MB are used, as before. So what is free does not count here, and the rest may grow so little
  # that 5,000 activities between the two quarters (a soak of 15,000) show a leak of 100 bytes each,
  # and 8,500 one fiber kept of 100.
  class Memory
    # What may grow, in all and by activity, between the second quarter of the rounds and the last.
    # An ended round is kept by what lies about on the stacks of idle threads.
    # Later Rubies have a megabyte by malloc for each thread, and keep it for the next (3.4).
    LIMITS = { objects: [3_000, 0.1], fibers: [40, 0.005],
               malloc: [RUBY_VERSION < "3.2" ? 200_000 : 3_500_000, 40] }.freeze
    # What neither malloc nor Ruby counts, such as stacks; in kB.
    GROWTH = 1.15
    SLACK_KB = 12_000

    def initialize
      @samples = []
    end

    # @param activities [Integer] done until now
    # @return [Hash{Symbol => Integer}]
    def note(activities)
      GC.start
      used, free = malloc
      resident = File.read("/proc/self/statm").split[1].to_i * 4
      @samples << { activities: activities, objects: GC.stat(:heap_live_slots),
                    fibers: ObjectSpace.each_object(Fiber).count, malloc: used,
                    resident_kb: resident, taken_kb: resident - (free / 1024) }
      @samples.last
    end

    # @return [Array<String>] what has grown
    def grown
      quarter = @samples.size / 4
      return [] if quarter < 2

      early, late = @samples[quarter, quarter], @samples.last(quarter)
      done = late.first[:activities] - early.last[:activities]
      limits = LIMITS.transform_values { |most, each| ->(before) { before + most + (each * done) } }
      limits[:taken_kb] = ->(before) { (before * GROWTH) + SLACK_KB }
      limits.filter_map do |what, limit|
        before = early.map { |sample| sample[what] }.max
        after = late.map { |sample| sample[what] }.min
        next if after <= limit.(before)

        "#{what} grew from #{before} to #{after} in #{done} activities"
      end
    end

    private

    # @return [Array<Integer>] bytes in use and free ones; zeros where libc does not tell
    def malloc
      report = Tempfile.create("malloc") { |file| reported(file) } or return [0, 0]
      total = report.rpartition("</heap>").last
      free = %w[fast rest].sum { |type| total[/type="#{type}" .*size="(\d+)"/, 1].to_i }
      mapped = total[/type="mmap" .*size="(\d+)"/, 1].to_i
      [total[/system type="current" size="(\d+)"/, 1].to_i + mapped - free, free]
    end

    def reported(file)
      stream = call("fopen", [file.path, "w"], Fiddle::TYPE_VOIDP)
      call("malloc_info", [0, stream], Fiddle::TYPE_INT)
      call("fclose", [stream], Fiddle::TYPE_INT)
      file.read
    rescue Fiddle::DLError
      nil
    end

    def call(name, arguments, type)
      types = arguments.map { |one| one == 0 ? Fiddle::TYPE_INT : Fiddle::TYPE_VOIDP }
      Fiddle::Function.new(Fiddle.dlopen(nil)[name], types, type).(*arguments)
    end
  end
end
