# frozen_string_literal: true

require_relative "channels"
require_relative "transfers"
require_relative "interludes"

module RandomPrograms
  # A random program: a few workers that send messages to one another through channels, with
  # other work in between. Each channel has one writer and one reader, which block, so what a worker
  # sees does not depend on who runs when (Gilles Kahn, "The Semantics of a Simple Language for
  # Parallel Programming", 1974). The messages have one order in which all workers do their parts,
  # so the program ends.
  class Program
    Step = Struct.new(:name, :call)

    # @return [Integer]
    attr_reader :seed

    def initialize(seed)
      @seed = seed
      random = Random.new(seed)
      @channels = Array.new(1 + random.rand(5)) { Channels::KINDS.sample(random: random) }
                       .flat_map { |kind| Channels.open(kind, random) }
      @workers = Array.new(2 + random.rand(4)) { [] }
      write(random)
    end

    # Runs it.
    # @yield [Proc] for each worker; starts it concurrently, and returns something that has `value`
    # @return [Array<Array<String>>] what each worker has seen
    def run
      @workers.map { |steps| yield(-> { steps.map { |step| see(step) } }) }.map(&:value)
    ensure
      ends = @channels.flat_map { |channel| [channel.writer, channel.reader] }.uniq
      ends.each { |one| one.close unless one.closed? }
    end

    private

    def write(random)
      @ends = @channels.to_h { |channel| [channel, @workers.sample(2, random: random)] }
      (5 + random.rand(40)).times do
        interlude(random) if random.rand(3).zero?
        message(@channels.sample(random: random), random)
      end
      @channels.each { |channel| finish(channel, random) }
    end

    def interlude(random)
      name, call = Interludes::ALL.to_a.sample(random: random)
      @workers.sample(random: random) << Step.new(name, call)
    end

    def message(channel, random)
      to, from, what = Transfers.pick(channel, random)
      writer, reader = @ends.fetch(channel)
      writer << Step.new("#{channel.kind} #{to}", -> { Transfers.write(channel, to, what) })
      reader << Step.new("#{channel.kind} #{from}", -> { Transfers.read(channel, from, what) })
    end

    # What is read at the end of a terminal depends on the system. OpenSSL says nothing of the end
    # if the socket is full then.
    def finish(channel, random)
      return if %i[pty tls].include?(channel.kind) || Transfers.queue?(channel)

      writer, reader = @ends.fetch(channel)
      name, call = Transfers::AT_END.to_a.sample(random: random)
      way = channel.kind == :pipe ? :close : :close_write
      writer << Step.new("#{channel.kind} #{way}", -> { channel.writer.public_send(way) })
      reader << Step.new("#{channel.kind} end #{name}", -> { call.call(channel.reader) })
    end

    def see(step)
      value = step.call.call
      "#{step.name}: #{brief(value)}"
    rescue NameError, TypeError, LocalJumpError
      raise # the program's own fault
    rescue StandardError => error
      "#{step.name}: #{error.class.ancestors.take(4)} #{error.message}"
    end

    def brief(value)
      return value.inspect unless value.is_a?(String) && value.bytesize > 60

      "#{value.encoding} #{value.bytesize} #{value.hash}"
    end
  end
end
