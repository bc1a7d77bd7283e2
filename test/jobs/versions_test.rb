# frozen_string_literal: true

require "minitest/autorun"
require "support/subprocess"

# A queue's next major version is not what was tested: it stays as it is, and says so.
class JobVersionsTest < Minitest::Test
  { "solid_queue" => "module SolidQueue; VERSION = '2.0.0'; DEFAULT_LOGGER = Object.new; end",
    "good_job" => "module GoodJob; VERSION = '5.0.0'; Scheduler = Class.new; end",
    "sidekiq" => "module Sidekiq; VERSION = '9.0.0'; Processor = Class.new; end" }
    .each do |name, script|
      define_method("test_#{name}") do
        result = Subprocess.ruby(<<~RUBY, loaded: false)
          #{script}
          require "neverblock"
          print NB::Drivers.status.find { |one| one.name == "#{name}" }.state
        RUBY
        assert_equal "unsupported", result.out
        assert_match(/#{name}: left as it is.*version .* is not one of/, result.err)
      end
    end
end
