# frozen_string_literal: true

require_relative "masks"
require_relative "visitor"

module Apps
  # Fifty visitors at once, each signed in under a name of their own. Each looks at the pages of a
  # walk, in an order of their own, and then writes.
  class Crowd
    WRITES = 1
    # What is wrong with a page.
    Fault = Struct.new(:kind, :path, :text)

    attr_reader :seconds, :faults

    def initialize(application, walk, port)
      @application = application
      @pages = walk.pages
      @masks = Masks.new(application)
      @seconds = []
      @faults = []
      @visitors = (1..Application::VISITORS).map { |number| Visitor.new(number, port) }
    end

    # Signs all of them in.
    def enter = each { |visitor| @application.enter(visitor) }

    # @return [Float] how long all of it took
    def look
      start = now
      each do |visitor|
        order = @pages.shuffle(random: Random.new(visitor.number)).cycle
        @application.looks.times { look_at(visitor, order.next) }
      end
      now - start
    end

    # @return [Integer] how many texts were written
    def write
      return 0 unless @application.written

      each do |visitor|
        WRITES.times { |number| write_text(visitor, "#{visitor.name} wrote this, #{number}") }
      end
      @visitors.size * WRITES
    end

    def close = @visitors.each(&:close)

    private

    def each
      @visitors.map { |visitor| Thread.new { watched(visitor) { yield visitor } } }.each(&:join)
    end

    def watched(visitor)
      yield
    rescue StandardError => error
      @faults << Fault.new(:error, visitor.name, "#{error.class}: #{error.message}")
    end

    def look_at(visitor, page)
      answer = visitor.get(page.path)
      @seconds << answer.seconds
      judge(page, answer, @masks.apply(answer.body, visitor))
    rescue SystemCallError, IOError, Timeout::Error => error
      @faults << Fault.new(:error, page.path, "#{error.class}: #{error.message}")
    end

    def judge(page, answer, body)
      if page.status && answer.status != page.status
        @faults << Fault.new(:status, page.path, "#{answer.status} instead of #{page.status}")
      elsif page.body && body != page.body
        @faults << Fault.new(:body, page.path, Masks.difference(page.body, body))
      end
    end

    # The page that follows has to show the text, and the visitor's own page no other's name.
    def write_text(visitor, text)
      answer = @application.write(visitor, text)
      shown = answer.status == 200 && answer.body.include?(text)
      @faults << Fault.new(:write, answer.path, "#{visitor.name}: #{answer.status}") unless shown
      own = visitor.get(@application.own_page)
      names = own.body.scan(/visitor\d\d/i).map(&:downcase).uniq
      return if own.status == 200 && names == [visitor.name]

      @faults << Fault.new(:crossed, own.path, "#{visitor.name} saw #{names.join(", ")}")
    end

    def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  end
end
