# frozen_string_literal: true

require "erb"

module Bench
  module Report
    # What the articles said, and what is true today: a part of the page. Two rows of buttons show
    # one verdict, one study; they need no script.
    class Claims
      # Verdicts in the order of reading.
      WORDS = { holds: "holds", changed: "no longer", open: "not measured" }.freeze

      # @param results [Array<Result>]
      # @param docs [String, nil] the documentation's folder, seen from the page; nil: it has no
      #   neighbours
      def initialize(results, docs: nil)
        @results = results
        @docs = docs
        @studies = Bench::Claims::ALL.transform_values do |claims|
          claims.map { |claim| [claim, claim.answer(results)] }
        end
      end

      # @return [String] HTML
      def to_s
        <<~HTML
          <section id="claims">
          <h2>What the articles said</h2>
          <p>#{escape(line)}</p>
          #{buttons("verdict", WORDS)}
          #{buttons("study", @studies.keys.map.with_index { |name, index| ["s#{index}", name] })}
          <ul class="claims">
          #{@studies.values.map.with_index { |claims, index| items(claims, index) }.join("\n")}
          </ul>
          </section>
        HTML
      end

      # @return [String] such as "Of 43 claims 20 hold, 13 do so no longer, 10 are not measured."
      def line
        counts = @studies.values.flatten(1).map { |_, answer| answer.verdict }.tally
        counts.default = 0
        "Of #{counts.values.sum} claims #{counts[:holds]} hold, #{counts[:changed]} no longer " \
          "do, and of #{counts[:open]} too little is measured. A claim holds, or no longer does, " \
          "when the whole 95 % interval lies on one side of the bound beside it, or for the " \
          "reason given."
      end

      private

      def buttons(group, choices)
        inputs = [["all", "all"], *choices].map do |id, word|
          checked = " checked" if id == "all"
          "<input type=\"radio\" name=\"#{group}\" id=\"#{group}-#{id}\"#{checked}>" \
            "<label for=\"#{group}-#{id}\">#{escape(word)}</label>"
        end
        "<div class=\"buttons\" role=\"group\" aria-label=\"#{group}\">#{inputs.join("\n")}</div>"
      end

      def items(claims, index)
        claims.map { |claim, answer| item(claim, answer, "s#{index}") }.join("\n")
      end

      def item(claim, answer, study)
        word = WORDS.fetch(answer.verdict)
        <<~HTML.chomp
          <li class="#{answer.verdict} #{study}"><b class="verdict">#{word}</b>
          <span class="id">#{escape(claim.row)}</span> #{escape(claim.quote)}
          <small>#{escape(sentence(answer))} #{more(answer)}</small></li>
        HTML
      end

      def sentence(answer) = "#{answer.text.sub(/\A\p{Ll}/, &:upcase)}."

      # The samples on this page, or the page with the reason, or what would measure it.
      def more(answer)
        table = answer.table
        return link("##{table.id}", table.id.upcase) if table && shown?(table)
        return document(answer.page) unless table

        "<code>nb bench #{table.id}</code>"
      end

      def shown?(table) = @results.any? { |result| result.table == table }

      def document(page)
        name = File.basename(page[/[^#]+/])
        @docs ? link("#{@docs}/#{page}", name) : "docs/#{escape(name)}"
      end

      def link(target, text) = "<a href=\"#{escape(target)}\">#{escape(text)}</a>"

      def escape(text) = ERB::Util.html_escape(text.to_s)
    end
  end
end
