# frozen_string_literal: true

require_relative "../support/transparency/http_rows"
require "faraday"

# Faraday with its own adapter, on Net::HTTP. Other adapters wait as their library does.
class FaradayTest < Transparency
  extend HTTPRows

  library "faraday", group: "HTTP", gems: %w[faraday faraday-net_http]
  http_rows except: [:sessions]

  private

  def get(url, timeout: 5) = Faraday.new(request: { timeout: timeout }).get(url).body
end
