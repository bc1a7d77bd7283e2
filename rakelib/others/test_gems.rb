# frozen_string_literal: true

require "fileutils"
require "rbconfig"
require_relative "../rubies"

module Others
  # The gems that suites of other projects need: those of our own tests, and a few more.
  module TestGems
    RUBY = Rubies::Found.new(RbConfig.ruby, RUBY_VERSION)
    # What installs in these versions on each Ruby, and is no dependency of our own tests.
    SHARED = %w[allocation_stats:0.1.5 chronic:0.10.2 chunky_png:1.4.0 climate_control:1.2.0
                coveralls_reborn:0.28.0 dalli:4.3.3 delayed_job:4.2.0 erubis:2.7.0 faker:3.5.2
                faraday-mashify:1.0.2 faraday-multipart:1.2.0 faraday-net_http_persistent:2.3.0
                flexmock:1.3.0 gimme:0.5.0 gli:2.22.2 graphql-batch:0.6.1 http-form_data:2.3.0
                httpclient:2.9.0 image_size:3.6.0 json-schema:5.2.2 kramdown:2.5.2 launchy:3.1.1
                listen:3.9.0 matrix:0.4.3 megatest:0.11.0 minitest-excludes:2.0.4
                minitest-focus:1.4.1 minitest-global_expectations:1.0.2 minitest-hooks:1.5.2
                minitest-proveit:1.0.0 minitest-reporters:1.8.0 minitest-stub-const:0.6 mocha:2.7.1
                moneta:1.6.0 mono_logger:1.1.2 msgpack:1.8.0 multi_json:1.19.1
                multipart-parser:0.1.1 mutex_m:0.3.0 net-ssh:7.3.0 oga:3.4 open4:1.3.4 pastel:0.8.0
                pg_examiner:0.5.2 pond:0.5.0 pry:0.15.2 rabbitmq_http_api_client:3.2.2
                rack-cache:1.17.0 redis-classy:2.4.1 redis-namespace:1.11.0 regexp_parser:2.13.1
                rspec-benchmark:0.6.0 rspec-its:2.0.0 rspec-retry:0.6.2 rspec-wait:0.0.10
                simplecov-lcov:0.9.0 simplecov:0.22.0 sinatra:3.2.0 test-unit-ruby-core:1.0.16
                test-unit:3.7.8 test_declarative:0.0.6 timecop:0.9.10 toxiproxy:2.0.2
                tty-reader:0.9.0 warning:1.6.0 webrick:1.9.2 xpath:3.2.0].freeze
    MORE = {
      "3.1" => [*SHARED, "fakefs:3.0.1"],
      "3.4" => [*SHARED, *%w[amazing_print:3.0.0 ammeter:1.1.7 aws-sdk-sqs:1.124.0 cronex:0.15.0
                             database_cleaner-redis:2.0.0 dotenv:3.2.0 fakefs:3.2.1
                             faraday-patron:2.0.2 faraday-typhoeus:2.0.0 ffaker:2.25.0
                             generator_spec:0.10.0 haml:7.5.2 maxitest:6.1.0 memory_profiler:1.1.0
                             metrics:0.15.0 minitest-memory:1.1.1 minitest-shared_description:1.0.0
                             minitest-strict:1.0.1 minitest-stub_any_instance:1.0.3
                             net_tcp_client:2.2.1 pdf-reader:2.16.0 pgvector:0.3.3 pitchfork:0.18.1
                             rack-contrib:2.5.0 rails-controller-testing:1.0.5 rantly:2.0.0
                             redis-prescription:2.6.0 resque:3.0.0 rspec-its:2.0.0
                             rspec-rails:8.0.4 rufus-scheduler:3.9.2 semian:0.28.2
                             sinatra-contrib:4.2.1 slim:5.2.2 sneakers:2.11.0
                             sorbet-runtime:0.6.13646 stackprof:0.2.28 sus-fixtures-async:0.2.0
                             sus-fixtures-console:0.5.0 sus-fixtures-openssl:0.2.1
                             sus-fixtures-time:0.1.0 sus:0.38.0 traces:0.18.2
                             websocket-client-simple:0.9.0]]
    }.freeze

    module_function

    # @return [Hash] for a process that uses them
    def environment
      install unless File.exist?(complete) && File.read(complete) == list
      RUBY.environment.merge("GEM_HOME" => folder, "GEM_PATH" => "#{folder}:#{of_project}")
    end

    # @return [String] the folder of our own tests' gems, which bin/setup has installed
    def of_project = RUBY.gems

    # The file that tells which ones were installed.
    def complete = "#{folder}/.complete"

    def list = MORE.fetch(RUBY.api).join("\n")

    def folder = File.expand_path("tmp/others/gems-#{RUBY.api}")

    def install
      FileUtils.mkdir_p(folder)
      system(RUBY.environment.merge("GEM_HOME" => folder, "GEM_PATH" => "#{folder}:#{of_project}"),
             RbConfig.ruby, "-S", "gem", "install", "--quiet", "--no-document", "--conservative",
             *MORE.fetch(RUBY.api), exception: true)
      File.write(complete, list)
    end
  end
end
