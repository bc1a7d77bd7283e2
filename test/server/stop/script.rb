# frozen_string_literal: true

module StopMatrix
  # What one round does, all of it from one seed: how the server runs, and which signals it gets,
  # when, in which phase of its life, ending with one that means the end.
  class Script
    # One signal: to the master, to all of its group, to a worker, or to one just born.
    Step = Struct.new(:target, :signal, :pause)

    PAUSES = [0, 0, 0.0005, 0.001, 0.01, 0.1, 0.5, 1.5].freeze
    MASTERS = %w[USR1 USR1 USR2 USR2 HUP PWR TTIN TTOU].freeze
    WORKERS = %w[TERM TERM INT HUP PWR USR1 USR2 QUIT].freeze

    attr_reader :seed, :kind, :workers, :loads, :begins, :steps

    # @param slow [Float] seconds that an application takes to load, in one of four rounds
    def initialize(seed, slow: 5.0)
      @seed = seed
      @random = Random.new(seed)
      @kind = pick(%i[tcp tls unix tcp])
      @workers = pick([0, 1, 1, 2])
      @loads = pick([0, 0, 0, slow])
      @preload = pick([true, false])
      # When the first signal comes: seconds after the start; nil: once requests are answered.
      @begins = pick([@random.rand(0.05), @random.rand(2.0), nil, nil, nil])
      @steps = Array.new(@random.rand(4)) { step } + the_end
    end

    # @return [String] config/neverblock.rb
    def config = "workers #{@workers}\npreload_app! #{@preload}\ndrain_timeout 20\nquiet\n"

    def to_s
      all = steps.map { |step| "#{step.signal} to #{step.target}, #{step.pause} s" }
      "seed #{seed}: #{kind}, #{workers} workers#{", preloaded" if @preload}, loads in " \
        "#{loads} s; " \
        "#{begins ? "after #{begins.round(4)} s" : "when it serves"}: #{all.join("; ")}"
    end

    private

    def pick(choices) = choices[@random.rand(choices.size)]

    def step
      target = @workers.zero? ? :master : pick(%i[master master worker newborn])
      Step.new(target, pick(target == :master ? MASTERS : WORKERS), pick(PAUSES))
    end

    def the_end
      case @random.rand(10)
      when 0 then [Step.new(:master, "QUIT", 0)]
      when 1 then [Step.new(:master, "TERM", pick(PAUSES)), Step.new(:master, "TERM", 0)]
      when 2, 3 then [Step.new(:group, "INT", 0)]
      else [Step.new(:master, "TERM", 0)]
      end
    end
  end
end
