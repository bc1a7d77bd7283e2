# frozen_string_literal: true

require_relative "helper"

# One response, and whether another follows it on the same connection.
module OneResponse
  include ServerTest

  class Body
    attr_reader :closed

    def initialize(&each)
      @each = each
      @closed = 0
    end

    def each(&out) = @each.call(out)
    def close = @closed += 1
  end

  # Serves one response at /, asks for it and then, on the same connection, for another.
  # @return [Array(String, Boolean)] all that came, and whether the second was answered
  def after(response, request = "GET / HTTP/1.1\r\n")
    serve do |env|
      next [200, {}, ["second"]] if env["PATH_INFO"] == "/second"

      response.respond_to?(:call) ? response.call(env) : response
    end
    second = "GET /second HTTP/1.1\r\n#{HOST}Connection: close\r\n\r\n"
    answer = exchange("#{request}#{HOST}\r\n#{second}")
    assert_match(/second\z/, get("/second"), "the server goes on")
    [answer, answer.end_with?("second")]
  end
end
