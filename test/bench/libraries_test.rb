# frozen_string_literal: true

require_relative "helper"

# Table A4: each fiber of a pool makes a request, and whatever comes back is compared.
class BenchLibrariesTest < Minitest::Test
  include BenchHelper

  def sample(library, server)
    cell("a4", { library: library, count: 20, delay_ms: 20 }, port: server.port)
  end

  def test_every_library_gets_all_its_answers
    server = Bench::Server.start(:delayd, ruby: Bench::RubyTarget.new(yjit: false))
    %w[rest-client faraday aws-sdk-s3].each do |library|
      found = sample(library, server)

      assert_equal [0, nil, 20], found.values_at("errors", "failure", "operations"), library
      assert_operator found["value"], :>=, 0.02
    end
  ensure
    server&.stop
  end
end
