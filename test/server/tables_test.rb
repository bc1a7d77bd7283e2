# frozen_string_literal: true

require "minitest/autorun"
require "open3"

class HttpTablesTest < Minitest::Test
  HTTP = File.expand_path("../../ext/neverblock/http", __dir__)

  def test_the_tables_are_what_the_generator_writes
    out, status = Open3.capture2(RbConfig.ruby, "#{HTTP}/tables.rb")
    assert_predicate status, :success?
    assert_equal File.read("#{HTTP}/tables.h"), out, "run: ruby tables.rb > tables.h"
  end
end
