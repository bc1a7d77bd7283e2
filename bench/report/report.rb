# frozen_string_literal: true

module Bench
  # What makes tables, charts and pages of results. Reads {Result} and {Grid}, measures nothing.
  module Report; end
end

require_relative "format"
require_relative "svg"
require_relative "scale"
require_relative "bars"
require_relative "lines"
require_relative "summary"
require_relative "takeaway"
require_relative "terminal"
require_relative "markdown"
require_relative "html_table"
require_relative "claims"
require_relative "page"
require_relative "rows"
