# frozen_string_literal: true

require_relative "../kept_page"

module Apps
  # docs/APPLICATIONS.md.
  class Page < KeptPage
    RESULTS = File.expand_path("results.json", __dir__)
    PAGE = File.expand_path("docs/APPLICATIONS.md")
    HEAD = File.read(File.expand_path("page.md", __dir__))
    LABELS = { "puma" => "Puma, 5 threads", "neverblock" => "NeverBlock",
               "falcon" => "Falcon" }.freeze
    PLACES = { "postgresql" => "PostgreSQL", "mariadb" => "MariaDB" }.freeze

    def add(application, result)
      keep(application.name, result.merge("label" => application.label))
    end

    def text = HEAD + @results.values.map { |result| section(result) }.join

    private

    def section(result)
      <<~MARKDOWN

        ## #{result.values_at("label", "version").join(" ")}

        #{facts(result)} #{opinion(result["doctor"])}

        | server | looks | faults | pages/s | p50 | p99 | CPU a page | memory | texts written |
        |---|---:|---:|---:|---:|---:|---:|---:|---:|
        #{result["servers"].map { |server, row| line(server, row) }.join("\n")}
      MARKDOWN
    end

    def facts(result)
      "Ruby #{result["ruby"]}, #{PLACES.fetch(result["database"])}; #{result["pages"]} pages, " \
        "#{result["steady"]} of them steady."
    end

    def line(server, row)
      cells = [LABELS.fetch(server), row["looks"], row["faults"].size, row["rate"],
               "#{row["p50"]} s", "#{row["p99"]} s", "#{row["cpu_ms"]} ms",
               "#{row["memory_mb"]} MB", row["writes"]]
      "| #{cells.join(" | ")} |"
    end

    def opinion(findings)
      findings = findings.reject { |line| line.start_with?("note") }
      return "`nb doctor` finds nothing." if findings.empty?

      "`nb doctor`: #{findings.join("; ")}."
    end
  end
end
