# frozen_string_literal: true

require_relative "opinions"
require_relative "pair"
require_relative "requests"

module Differential
  # Puts messages before our parser and the others.
  class Comparison
    def initialize
      @ours = Ours.new
      @others = {"llhttp" => Llhttp.new, "Puma" => PumaParser.new}
    end

    def close = @ours.close

    # @yieldparam found [String] the class of a difference
    # @yieldparam pair [Pair]
    # @return [Integer] how many our parser takes
    def compare(messages)
      answers = @ours.ask(messages)
      messages.zip(answers) do |bytes, ours|
        @others.each do |name, parser|
          pair = Pair.new(name, bytes, ours, parser.ask(bytes, ours))
          end_line(pair)
          pair.classes.each { |found| yield found, pair }
        end
      end
      answers.count { |answer| answer.verdict == :accept }
    end

    private

    # We judge a line when it is complete, they judge each byte: so the line is completed.
    def end_line(pair)
      return unless pair.ours.verdict == :more && pair.theirs.verdict != :more

      pair.ours = @ours.ask(["#{pair.bytes}\r\n\r\n"]).first
    end
  end

  # Compares a number of messages and counts the classes.
  class Run
    # @return [Hash{Array(String, String) => Integer}] how often each class and opinion
    attr_reader :counts
    # @return [Hash{String => String}] the shortest message of each class
    attr_reader :examples
    # @return [Integer] how many our parser takes
    attr_reader :taken

    def initialize(seed)
      @requests = Requests.new(seed)
      @counts = Hash.new(0)
      @examples = {}
      @taken = 0
    end

    def run(count)
      comparison = Comparison.new
      count.times.each_slice(1000) do |numbers|
        messages = numbers.map { |number| @requests.message(number) }
        @taken += comparison.compare(messages) { |found, pair| note(found, pair) }
      end
      self
    ensure
      comparison&.close
    end

    def note(found, pair)
      @counts[[found, pair.other]] += 1
      known = @examples[found]
      @examples[found] = pair.bytes if !known || known.bytesize > pair.bytes.bytesize
    end

    def report(out)
      @examples.sort.each do |found, bytes|
        numbers = %w[llhttp Puma].map { |other| "#{other} #{@counts[[found, other]]}" }
        out.puts "#{found}: #{numbers.join(", ")}\n    #{bytes.inspect}"
      end
    end
  end

  # The table of docs/PARSER.md.
  module Page
    PATH = File.expand_path("../../docs/PARSER.md", __dir__)
    ROW = /^\| ((?:refused|taken|read differently): [^|]+?) \| `("[^|]+")` \|/

    # @return [Hash{String => String}] every class that is explained, and its example
    def self.classes
      File.read(PATH).scan(ROW).to_h do |name, example|
        [name.delete("`"), example.undump.b]
      end
    end
  end
end
