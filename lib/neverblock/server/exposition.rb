# frozen_string_literal: true

require_relative "core"
require_relative "metrics"

module NB
  class Server
    # Writes numbers in Prometheus' text format 0.0.4, or in OpenMetrics 1.0.0 for clients that
    # prefer it.
    #
    # @api private
    class Exposition
      # The name of each format in Accept, and in Content-Type.
      FORMS = {
        "text/plain" => "text/plain; version=0.0.4; charset=utf-8",
        "application/openmetrics-text" =>
          "application/openmetrics-text; version=1.0.0; charset=utf-8"
      }.freeze
      ESCAPES = {"\\" => "\\\\", "\n" => "\\n", "\"" => "\\\""}.freeze
      private_constant :FORMS, :ESCAPES

      # @param accept [String, nil] the request's field
      # @return [Exposition] in the preferred format; plain text if the field names neither
      def self.for(accept)
        wanted = accept.to_s.downcase.split(",").map { |range| range.split(";").map(&:strip) }
        ranks = wanted.to_h { |name, *parameters| [name, quality(parameters)] }
        form = FORMS.keys.max_by { |name| [ranks.fetch(name, 0), name == "text/plain" ? 1 : 0] }
        new(form)
      end

      def self.quality(parameters)
        parameters.filter_map { |text| text[/\Aq=(.*)/, 1] }.map(&:to_f).first || 1.0
      end
      private_class_method :quality

      # @return [String] its Content-Type
      attr_reader :type

      def initialize(form)
        @type = FORMS.fetch(form)
        @open = form != "text/plain"
      end

      # @param values [Hash{Symbol=>Array}] by the names of {Metrics::FAMILIES}: [labels, value]
      #   each
      # @return [String]
      def text(values)
        out = +""
        Metrics::FAMILIES.each do |name, (type, help)|
          samples = values[name] or next
          named = type == :counter ? "#{name}_total" : name
          out << comment(@open ? name : named, type, help)
          samples.each do |labels, value|
            next out << histogram(name, labels, value) if type == :histogram

            out << line(named, labels, value)
          end
        end
        out << "# EOF\n" if @open
        out
      end

      private

      def comment(name, type, help) = "# HELP #{name} #{help}\n# TYPE #{name} #{type}\n"

      def line(name, labels, value) = "#{name}#{braces(labels)} #{value}\n"

      def histogram(name, labels, counts)
        *counts, sum = counts
        total = 0
        lines = Core::BOUNDS.chain(["+Inf"]).zip(counts).map do |bound, count|
          line("#{name}_bucket", {**labels, le: bound}, total += count)
        end
        lines.join + line("#{name}_sum", labels, sum) + line("#{name}_count", labels, total)
      end

      def braces(labels)
        return "" if labels.empty?

        "{#{labels.map { |key, text| "#{key}=\"#{escape(text)}\"" }.join(",")}}"
      end

      def escape(text) = text.to_s.gsub(/[\\\n"]/, ESCAPES)
    end
  end
end
