# frozen_string_literal: true

require_relative "../support/transparency/http_rows"
require "rest-client"

# rest-client, on Net::HTTP.
class RestClientTest < Transparency
  extend HTTPRows

  library "rest-client", group: "HTTP", gems: %w[rest-client]
  http_rows except: [:sessions], timeout: 0.2

  private

  def get(url, timeout: 5)
    RestClient::Request.execute(method: :get, url: url, timeout: timeout, max_redirects: 0).body
  end
end
