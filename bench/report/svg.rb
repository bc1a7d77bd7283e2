# frozen_string_literal: true

require "erb"

module Bench
  module Report
    # Writes one SVG picture. Colours and fonts come from the page's style sheet by class names, so
    # that the same picture works in light and dark.
    class Svg
      # Average width of a character at the chart's font size of 12, in pixels. Wide enough for the
      # usual sans-serif fonts; a label that is estimated too wide only leaves air.
      CHARACTER = 6.5

      # @param text [String]
      # @param size [Numeric] font size
      # @return [Float] estimated width in pixels
      def self.text_width(text, size: 12)
        text.size * CHARACTER * size / 12.0
      end

      # @return [Numeric] pixels
      attr_reader :width
      # @return [Numeric] pixels; may be set while drawing
      attr_accessor :height

      # @param width [Numeric]
      # @param height [Numeric]
      # @param label [String] what a screen reader says
      def initialize(width, height, label: "")
        @width = width
        @height = height
        @label = label
        @body = +""
      end

      # @param corner [Array(Numeric, Numeric)] left and top
      # @param width [Numeric]
      # @param height [Numeric]
      # @param style [String] class names
      # @param tip [String, nil] shown under the pointer
      # @return [void]
      def rect(corner, width:, height:, style:, tip: nil)
        x, y = corner
        element("rect", { x: x, y: y, width: width, height: height, class: style }, tip)
      end

      # @param from [Array(Numeric, Numeric)]
      # @param to [Array(Numeric, Numeric)]
      # @param style [String]
      # @return [void]
      def line(from, to, style:)
        element("line", { x1: from[0], y1: from[1], x2: to[0], y2: to[1], class: style })
      end

      # @param points [Array<Array(Numeric, Numeric)>]
      # @param style [String]
      # @return [void]
      def polyline(points, style:)
        list = points.map { |x, y| "#{round(x)},#{round(y)}" }.join(" ")
        element("polyline", { points: list, class: style })
      end

      # @param x [Numeric]
      # @param y [Numeric]
      # @param radius [Numeric]
      # @param style [String]
      # @param tip [String, nil]
      # @return [void]
      def circle(x, y, radius, style:, tip: nil)
        element("circle", { cx: x, cy: y, r: radius, class: style }, tip)
      end

      # @param x [Numeric]
      # @param y [Numeric] base line
      # @param text [String]
      # @param style [String]
      # @param anchor [String] start, middle or end
      # @return [void]
      def text(x, y, text, style: "", anchor: "start")
        attributes = { x: x, y: y, class: style, "text-anchor": anchor }
        @body << "<text#{attributes(attributes)}>#{escape(text)}</text>\n"
      end

      # @return [String]
      def to_s
        size = "0 0 #{round(width)} #{round(height)}"
        "<svg viewBox=\"#{size}\" width=\"#{round(width)}\" height=\"#{round(height)}\" " \
          "role=\"img\" aria-label=\"#{escape(@label)}\">\n#{@body}</svg>\n"
      end

      private

      def element(name, attributes, tip = nil)
        @body << "<#{name}#{attributes(attributes)}"
        @body << (tip ? "><title>#{escape(tip)}</title></#{name}>\n" : "/>\n")
      end

      def attributes(attributes)
        attributes.reject { |_, value| value == "" }.map do |name, value|
          " #{name}=\"#{value.is_a?(Numeric) ? round(value) : escape(value)}\""
        end.join
      end

      def round(value)
        rounded = value.round(2)
        rounded == rounded.to_i ? rounded.to_i : rounded
      end

      def escape(text) = ERB::Util.html_escape(text.to_s)
    end
  end
end
