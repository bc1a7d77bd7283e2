# frozen_string_literal: true

require "socket"
require "timeout"

# A reader of Prometheus' text format 0.0.4 and of OpenMetrics 1.0 that lets nothing pass which
# either forbids, nor what `promtool check metrics` complains of.
class PrometheusText
  NAME = /[a-zA-Z_:][a-zA-Z0-9_:]*/
  LABEL = /([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\"n])*)"/
  SAMPLE = /\A(#{NAME})(?:\{(#{LABEL}(?:,#{LABEL})*)\})? (-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)\z/
  ENDINGS = {"counter" => ["_total"], "gauge" => [""],
             "histogram" => %w[_bucket _sum _count]}.freeze
  PLAIN = "text/plain; version=0.0.4; charset=utf-8"
  OPEN = "application/openmetrics-text; version=1.0.0; charset=utf-8"

  # What is wrong with a text.
  class Wrong < StandardError; end

  # @return [Hash{String=>String}] family => type
  attr_reader :types
  # @return [Hash{Array=>Float}] [name, labels] => value
  attr_reader :values

  def initialize(text, type)
    @open = {PLAIN => false, OPEN => true}.fetch(type) { wrong("Content-Type #{type}") }
    @types = {}
    @values = {}
    read(text)
    @types.each { |family, kind| check_histogram(family) if kind == "histogram" }
  end

  # @return [Float, nil] of one series
  def [](name, **labels) = @values[[name, labels.transform_keys(&:to_s).transform_values(&:to_s)]]

  # @return [Float] of all series of a name that have these labels
  def sum(name, **labels)
    labels = labels.transform_keys(&:to_s).transform_values(&:to_s)
    @values.sum { |(found, given), value| found == name && given >= labels ? value : 0.0 }
  end

  # @return [Hash{Array=>Float}] what must not fall
  def counters
    ending = /_(?:total|bucket|sum|count)\z/
    @values.select { |(name, _), _| name.match?(ending) }
  end

  private

  def wrong(what) = raise(Wrong, what)

  def read(text)
    wrong("not UTF-8") unless text.dup.force_encoding("UTF-8").valid_encoding?
    wrong("no newline at the end") unless text.end_with?("\n")
    lines = text.lines.map(&:chomp)
    wrong("# EOF: #{lines.last}") unless @open == (lines.last == "# EOF")
    lines.pop if @open
    lines.each { |line| line.start_with?("#") ? comment(line) : sample(line) }
  end

  def comment(line)
    case line
    when /\A# HELP (#{NAME}) ((?:[^\\]|\\[\\n"])+)\z/ then help($1)
    when /\A# TYPE (#{NAME}) (counter|gauge|histogram)\z/ then type($1, $2)
    else wrong(line)
    end
  end

  def help(name)
    wrong("#{name} twice") if @types.key?(name)
    @helped = name
  end

  def type(name, kind)
    wrong("TYPE #{name} without its HELP before") unless @helped == name
    wrong("#{name}: a counter ends with _total") unless
      kind != "counter" || name.end_with?("_total") != @open
    wrong("#{name}: only a counter ends with _total") if
      kind != "counter" && name.end_with?("_total", "_count", "_sum", "_bucket")
    @family = name
    @types[name] = kind
  end

  def sample(line)
    match = SAMPLE.match(line) or wrong(line)
    name = match[1]
    endings = @types[@family] == "counter" && !@open ? [""] : ENDINGS.fetch(@types[@family])
    wrong("#{name} in #{@family}") unless endings.any? { |ending| name == @family + ending }
    pairs = match[2].to_s.scan(LABEL)
    key = [name, pairs.to_h { |label, text| [label, unescape(text)] }]
    wrong("#{line}: twice") if @values.key?(key) || key.last.size != pairs.size
    @values[key] = Float(line[/\S+\z/])
  end

  def unescape(text) = text.gsub(/\\(.)/) { $1 == "n" ? "\n" : $1 }

  def check_histogram(family)
    buckets = @values.select { |(name, _), _| name == "#{family}_bucket" }
    groups = buckets.group_by { |(_, labels), _| labels.except("le") }
    wrong("#{family} has no buckets") if groups.empty?
    groups.each { |labels, rows| check_buckets(family, labels, rows) }
  end

  def check_buckets(family, labels, rows)
    bounds = rows.map { |(_, all), _| all["le"] == "+Inf" ? Float::INFINITY : Float(all["le"]) }
    counts = rows.map(&:last)
    wrong("#{family}: le #{bounds}") unless bounds == bounds.sort.uniq && bounds.last.infinite?
    wrong("#{family}: #{counts} is not cumulative") unless counts == counts.sort
    wrong("#{family}: +Inf is not the count") unless
      @values[["#{family}_count", labels]] == counts.last
    wrong("#{family} has no sum") unless @values[["#{family}_sum", labels]]
  end
end

# Asks a control socket as Prometheus does.
module Scrapes
  PATIENCE = 60

  # @return [String, String] the text and its Content-Type
  def metrics_of(port, accept: nil)
    TCPSocket.open("127.0.0.1", port) do |socket|
      fields = ["Host: 127.0.0.1:#{port}", *("Accept: #{accept}" if accept)]
      socket.write(["GET /metrics HTTP/1.1", *fields, "", ""].join("\r\n"))
      answer = Timeout.timeout(PATIENCE) { socket.read }
      raise EOFError if answer.empty?

      head, text = answer.split("\r\n\r\n", 2)
      assert_match(/\AHTTP\/1\.0 200 OK\r\n/, head)
      [text, head[/^Content-Type: (.*)$/i, 1].chomp]
    end
  end

  # @return [PrometheusText]
  def scrape(port, accept: nil) = PrometheusText.new(*metrics_of(port, accept: accept))
end
