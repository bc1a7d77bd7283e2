# frozen_string_literal: true

# What a page waited for, to be drawn at its foot.
class Waits
  Wait = Struct.new(:name, :start, :length)

  attr_reader :all

  def initialize
    @begin = now
    @all = []
  end

  # Notes how long the block takes, and returns its value.
  def for(name)
    start = now
    yield
  ensure
    @all << Wait.new(name, start - @begin, now - start)
  end

  def total = @all.sum(&:length)

  private

  def now = Process.clock_gettime(Process::CLOCK_MONOTONIC, :float_millisecond)
end
