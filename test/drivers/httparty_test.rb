# frozen_string_literal: true

require_relative "../support/transparency/http_rows"
require "httparty"

# HTTParty, on Net::HTTP.
class HTTPartyTest < Transparency
  extend HTTPRows

  library "httparty", group: "HTTP", gems: %w[httparty]
  http_rows except: [:sessions]

  private

  def get(url, timeout: 5) = HTTParty.get(url, timeout: timeout, max_retries: 0).body
end
