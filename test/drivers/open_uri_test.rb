# frozen_string_literal: true

require_relative "../support/transparency/http_rows"
require "open-uri"

# open-uri, on Net::HTTP.
class OpenURITest < Transparency
  extend HTTPRows

  library "open-uri", group: "HTTP"
  http_rows except: [:sessions], timeout: 0.2

  private

  def get(url, timeout: 5) = URI.parse(url).open(read_timeout: timeout, &:read)
end
