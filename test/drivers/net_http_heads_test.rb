# frozen_string_literal: true

require "minitest/autorun"
require "net/http"
require "rbconfig"
require_relative "../support/subprocess"

# The heads that C reads and writes in a loop (drivers/net_http.rb): all that a program can see
# is as Net::HTTP's own code makes it, and who has put in code of his own finds it called.
class NetHTTPHeadTest < Minitest::Test
  FOLDER = File.expand_path("net_http", __dir__)
  STATE = 'puts NB::Drivers.status.find { |row| row.name == "net-http" }'
  COUNTS = /\Anet-http \S+, net-protocol \S+: \d{4,5} cases, [1-9]\d{2,3} fast\n\z/
  ORIGINAL = "p [Net::HTTPResponse.method(:read_new), " \
             "Net::HTTPGenericRequest.instance_method(:write_header)]" \
             '.all? { |one| one.source_location[0].include?("net/http/") }'

  def program(file, *arguments)
    result = Subprocess.run({}, [RbConfig.ruby, "-W1", "-I", Subprocess::LIB,
                                 File.join(FOLDER, file), *arguments], 120)

    assert_empty result.err
    assert_predicate result.status, :success?
    result.out
  end

  def ruby(script, **options)
    result = Subprocess.ruby(script, **options)

    assert_empty result.err
    result.out
  end

  # With the newest version, and with those that Ruby brings.
  [[], ["bundled"]].each do |arguments|
    define_method("test_#{["heads", *arguments].join("_")}_cut_at_every_byte_are_read_as_before") do
      assert_match(COUNTS, program("responses.rb", *arguments))
    end

    define_method("test_#{["requests", *arguments].join("_")}_are_written_as_before") do
      assert_match(COUNTS, program("requests.rb", *arguments))
    end
  end

  def test_methods_of_others_are_called_as_often_as_without_a_loop
    assert_match(/\A\d\d cases\n\z/, program("overrides.rb"))
  end

  def test_outside_of_a_loop_and_switched_off_the_library_reads
    read = "socket = Net::BufferedIO.new(StringIO.new); " \
           "p NB::Drivers::NetHTTPCalls.read(Net::HTTPResponse, socket)"

    assert_equal "nil\n", ruby("require 'net/http'; #{read}")
    assert_match(/\Anet-http \S+ off \(NB_DRIVERS\)\ntrue\n\z/,
      ruby("require 'net/http'; #{STATE}; #{ORIGINAL}", env: { "NB_DRIVERS" => "-net-http" }))
  end

  def test_a_version_that_it_does_not_know_is_left_alone_in_silence
    change = 'require "net/http"; Net::HTTP.send(:remove_const, :VERSION); ' \
             'Net::HTTP::VERSION = "99.0"; require "neverblock"'

    assert_match(/\Anet-http 99\.0 off \(Net::HTTP::VERSION is 99\.0, .*\)\ntrue\n\z/,
      ruby("#{change}; NB.run { }; #{STATE}; #{ORIGINAL}", loaded: false))
  end

  def test_a_library_that_someone_has_patched_before_is_left_alone
    change = 'require "net/http"; class Net::BufferedIO; def readuntil(*) = "mine"; end; ' \
             'require "neverblock"'

    assert_match(/\Anet-http .* off \(Net::BufferedIO#readuntil is not .*\)\ntrue\n\z/,
      ruby("#{change}; NB.run { }; #{STATE}; #{ORIGINAL}", loaded: false))
  end
end
