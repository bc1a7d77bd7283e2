# frozen_string_literal: true

require_relative "jobs"
require_relative "rails"

module Others
  # A part of a project's own tests. source: a Debian source package, or a repository as
  # `owner/name`; kind: the test framework, :ruby and :mspec for those in Ruby's sources; paths:
  # files and folders of tests, which not every version has; server: what they talk to, of
  # Surroundings; part: the folder of the source that has the project, where it is not the whole;
  # gems: versions that it knows, such as "json < 3", where our tests have newer ones.
  Suite = Struct.new(:name, :source, :version, :kind, :paths, :server, :part, :gems)

  # The package of the very Ruby that runs; Debian has no other.
  RUBIES = { "3.1" => "3.1.2-7+deb12u1", "3.4" => "3.4.5-1~exp1" }.freeze

  # Parts of Ruby's own tests, each a list of files and folders in test/.
  PARTS = {
    "fiber" => %w[fiber],
    "fiber-class" => %w[ruby/test_fiber.rb],
    "files" => %w[ruby/test_argf.rb ruby/test_dir.rb ruby/test_env.rb ruby/test_file_exhaustive.rb
                  ruby/test_require.rb etc fileutils pathname zlib test_find.rb test_pstore.rb
                  test_securerandom.rb test_tmpdir.rb],
    "io" => %w[ruby/test_io.rb ruby/test_io_buffer.rb ruby/test_io_m17n.rb ruby/test_io_timeout.rb
               ruby/test_file.rb ruby/test_pipe.rb ruby/test_readpartial.rb io],
    "libraries" => %w[coverage erb error_highlight stringio strscan test_delegate.rb
                      test_pp.rb test_singleton.rb test_time.rb test_un.rb test_weakref.rb],
    "monitor" => %w[monitor],
    "net" => %w[net],
    "openssl" => %w[openssl],
    "process" => %w[ruby/test_process.rb],
    "signal" => %w[ruby/test_signal.rb],
    "socket" => %w[socket],
    "thread" => %w[ruby/test_thread.rb ruby/test_thread_queue.rb ruby/test_thread_cv.rb],
    "timeout" => %w[test_timeout.rb],
    "various" => %w[ruby/test_autoload.rb ruby/test_enumerator.rb ruby/test_exception.rb
                    ruby/test_lazy_enumerator.rb ruby/test_sleep.rb ruby/test_system.rb
                    logger open-uri resolv test_open3.rb test_pty.rb test_tempfile.rb]
  }.freeze

  # Parts of ruby/spec, which lies in the same sources.
  SPECS = {
    "capi" => %w[optional/capi], # compiles extensions against the headers of this Ruby
    "core" => %w[argf conditionvariable dir enumerator exception fiber file filetest gc io kernel
                 main mutex objectspace process queue signal sizedqueue systemexit thread
                 threadgroup tracepoint].map { |name| "core/#{name}" },
    "language" => %w[language],
    "library" => %w[delegate digest expect io-wait logger monitor net-http objectspace open3 openssl
                    pathname pp resolv securerandom singleton socket stringio stringscanner tempfile
                    thread timeout tmpdir uri weakref yaml zlib].map { |name| "library/#{name}" }
  }.freeze

  # Of concurrent-ruby what waits, and what keeps values of threads.
  CONCURRENT = %w[actor agent async atom atomic/* cancellation channel channel/{buffer/*,tick}
                  dataflow delay edge/* exchanger executor/* future ivar mvar processing_actor
                  promise promises scheduled_task thread_safe/* throttle timer_task tvar]
               .map { |name| "spec/concurrent/#{name}_spec.rb" }.freeze

  # Of bunny all but what asks for TLS, for toxiproxy and for a newer RabbitMQ.
  BUNNY = [*%w[spec/unit/**/*_spec.rb spec/lower_level_api/**/*_spec.rb spec/issues/*_spec.rb],
           *%w[basic_* channel_* connection connection_[rs]* consumer_* dead_* exchange_*
               exclusive_* heartbeat message_* predeclared_* publish* queue_* read_only_* sender_*
               tx_* with_*].map { |name| "spec/higher_level_api/integration/#{name}_spec.rb" }]
          .freeze

  # Of amqp-client all but what asks for TLS.
  AMQP = %w[test/amqp/[!t]*_test.rb test/amqp/th*_test.rb].freeze

  # Of net-ssh all but what logs in to accounts of the machine.
  SSH = %w[test/test_*.rb test/authentication/**/test_*.rb test/connection/test_*.rb
           test/transport/**/test_*.rb].freeze

  # Of async what asks for no reactor of its own, of which a thread with our loop has none; nor the
  # idler, which starts tasks until the thread computes enough, and on a busy machine without end.
  ASYNC = [*%w[barrier children clock condition deadline limited_queue list node notification
               priority_queue promise queue semaphore timeout variable waiter scheduler/*]
    .map { |name| "test/async/#{name}.rb" },
           *%w[fiber file io io/* kernel kernel/* process tempfile thread thread/*]
             .map { |name| "test/#{name}.rb" }].freeze

  # Of redis-rb all but what asks three sentinels and a cluster.
  REDIS = %w[test/redis/*_test.rb test/distributed/*_test.rb].freeze

  # Of redis-client all but what asks sentinels.
  REDIS_CLIENT = %w[test/redis_client_test.rb test/redis_client/*_test.rb].freeze

  # Of net-imap all but what makes tables of an RFC, which it would fetch.
  IMAP = %w[test/net/imap/test_[!s]*.rb test/net/imap/test_s[!t]*.rb].freeze

  # Of Puma what asks a server in the same process.
  PUMA = %w[binder config events fiber_* http10 http11 iobuffer log_writer minissl null_io
            out_of_band_server persistent puma_server* rack_handler rack_server request_*
            thread_pool unix_socket url_map web_server].map { |name| "test/test_#{name}.rb" }.freeze

  # Of httpx all but what asks for proxies and for servers that are not in its process.
  HTTPX = %w[aws_sigv4 cache_* chainable content_digest cookie_jar error_response headers io/*
             options parser pool request response session resolver/**/*]
          .map { |name| "test/#{name}_test.rb" }.freeze

  # Of curb all but what sets schedulers of its own.
  CURB = %w[bug_* tc_[!cf]* tc_ftp_options tc_curl tc_curl_[!m]* tc_curl_maxfilesize tc_curl_multi
            tc_curl_multi_poll].map { |name| "tests/#{name}.rb" }.freeze

  # Of GraphQL Ruby what runs fibers, and what waits.
  GRAPHQL = %w[dataloader dataloader/* execution/**/* query/context schema/timeout
               schema/member/has_dataloader subscriptions subscriptions/* tracing/**/*]
            .map { |name| "spec/graphql/#{name}_spec.rb" }.freeze

  # Of EventMachine all but what asks for names and addresses of the network, and for protocols
  # that OpenSSL has given up.
  EVENT_MACHINE = %w[tests/test_[!hprsu]*.rb tests/test_{pause,pool,process*,proxy*,pure,queue}.rb
                     tests/test_{running,sasl,send_file,servers,shutdown_hooks,smtp*}.rb
                     tests/test_{spawn,stomp,ud}.rb].freeze

  # Of ferrum what waits for the network; its test of workers loses a race now and then.
  FERRUM = %w[spec/{cookies,headers}_spec.rb spec/network/*_spec.rb].freeze

  # Of Semantic Logger all but what asks for gems of services.
  SEMANTIC = %w[test/*_test.rb test/core_ext/*_test.rb
                test/appender/{async*,*http,file,io,loki,tcp,udp,wrapper}_test.rb].freeze

  # Of Sinatra all but what starts servers by sinatra-contrib.
  SINATRA = %w[test/[!i]*_test.rb test/indifferent_hash_test.rb].freeze

  # Of sinatra-contrib all but what asks for an engine of templates that is no more.
  CONTRIB = %w[spec/[!c]*_spec.rb spec/{config_file,cookies,custom_logger}_spec.rb].freeze

  # Of Sequel what has to do with connections, without a database.
  SEQUEL_CORE = %w[core/connection_pool core/database core/dataset core/mock_adapter
                   extensions/*connection* extensions/*thread* extensions/*server*]
                .map { |name| "spec/#{name}_spec.rb" }.freeze

  # Of Sequel what runs on PostgreSQL.
  SEQUEL = %w[spec/integration/*_test.rb spec/adapters/postgres_spec.rb].freeze

  # Of Typhoeus all but its adapter for Faraday before 2.
  TYPHOEUS = %w[spec/rack/**/*_spec.rb spec/typhoeus_spec.rb spec/typhoeus/*_spec.rb
                spec/typhoeus/[!a]*/**/*_spec.rb].freeze

  # Of midi-smtp-server all but its stress. The first files are what the others are made of.
  MIDI = %w[test/construct/base_*.rb test/construct/*.rb
            test/{specs,unit,integration}/*_test.rb].freeze

  # Tests of gems, of Debian's packages, of the gems' repositories or in the gem itself: where,
  # the version for each Ruby, which, the server that they need, and the part of the source.
  GEMS = {
    "vcr" => ["vcr/vcr", nil, "v6.4.0", :rspec, %w[spec/**/*_spec.rb]],
    "paper_trail" => ["paper-trail-gem/paper_trail", nil, "v17.0.0", :rspec, %w[spec/**/*_spec.rb],
                      :paper_trail],
    "stoplight" => ["bolshakov/stoplight", nil, "v5.3.5", :rspec, %w[spec/**/*_spec.rb],
                    :stoplight],
    "suo" => ["nickelser/suo", "v0.4.0", "v0.4.0", :minitest, %w[test/*_test.rb], :suo],
    "net-http2" => ["ostinelli/net-http2", "0.19.0", "0.19.0", :rspec,
                    %w[spec/api/[!c]*_spec.rb spec/http2-client/*_spec.rb]],
    "mini_sql" => ["discourse/mini_sql", nil, "v1.6.0", :minitest, %w[test/**/*_test.rb],
                   :mini_sql],
    "protocol-http1" => ["socketry/protocol-http1", nil, "v0.37.0", :sus, %w[test/**/*.rb]],
    "circuitbox" => ["yammer/circuitbox", "v2.0.0", "v2.0.0", :minitest, %w[test/*_test.rb
                     test/{integration,memory_store,notifier,time_helper}/*_test.rb]],
    "parallel" => ["grosser/parallel", nil, "v2.1.0", :rspec, %w[spec/**/*_spec.rb],
                  :parallel],
    "listen" => ["guard/listen", "v3.10.0", "v3.10.0", :rspec, %w[spec/**/*_spec.rb]],
    "request_store" => ["steveklabnik/request_store", "v1.7.0", "v1.7.0", :minitest,
                        %w[test/*_test.rb], :request_store],
    "pitchfork" => ["Shopify/pitchfork", nil, "v0.18.1", :megatest,
                    %w[test/{unit,slow}/test_*.rb], :installed],
    "thin" => ["macournoyer/thin", "v2.0.1", "v2.0.1", :rspec, %w[spec/[!p]*/**/*_spec.rb
               spec/[!d]*_spec.rb], :installed],
    "net-protocol" => ["ruby/net-protocol", "v0.2.2", "v0.2.2", :test_unit,
                       %w[test/net/protocol/test_*.rb]],
    "weakref" => ["ruby/weakref", "v0.1.4", "v0.1.4", :test_unit, %w[test/test_*.rb]],
    "io-endpoint" => ["socketry/io-endpoint", nil, "v0.18.0", :sus, %w[test/**/*.rb]],
    "async-process" => ["socketry/async-process", nil, "v1.4.0", :sus, %w[test/**/*.rb]],
    "amqp-client" => ["cloudamqp/amqp-client.rb", nil, "v2.1.0", :minitest, AMQP, :amqp],
    "down" => ["janko/down", nil, "v5.6.0", :minitest, %w[test/*_test.rb]],
    "i18n" => ["ruby-i18n/i18n", "v1.15.2", "v1.15.2", :minitest, %w[test/**/*_test.rb]],
    "semantic_logger" => ["reidmorrison/semantic_logger", nil, "v5.0.0", :minitest, SEMANTIC,
                          :semantic_logger],
    "semian" => ["Shopify/semian", nil, "v0.28.2", :minitest, %w[test/*_test.rb], :semian],
    "bunny" => ["ruby-amqp/bunny", "3.2.0", "3.2.0", :rspec, BUNNY, :bunny],
    "childprocess" => ["enkessler/childprocess", "v5.0.0", "v5.0.0", :rspec, %w[spec/*_spec.rb]],
    "httpclient" => ["nahi/httpclient", "v2.9.0", "v2.9.0", :test_unit, %w[test/test_[!a]*.rb]],
    "message-bus" => ["discourse/message_bus", nil, "v4.5.2", :minitest, %w[spec/lib/**/*_spec.rb],
                      :message_bus],
    "message-bus-pg" => ["discourse/message_bus", nil, "v4.5.2", :minitest,
                         %w[spec/lib/**/*_spec.rb], :message_bus_pg],
    "mqtt" => ["njh/ruby-mqtt", "v0.7.0", "v0.7.0", :rspec, %w[spec/*_spec.rb], :simplecov],
    "nio4r" => ["socketry/nio4r", "v2.7.4", "v2.7.4", :rspec, %w[spec/**/*_spec.rb]],
    "open-uri" => ["ruby/open-uri", "v0.5.0", "v0.5.0", :test_unit, %w[test/open-uri/test_*.rb]],
    "openssl" => ["ruby/openssl", "v4.0.2", "v4.0.2", :test_unit, %w[test/openssl/test_*.rb], nil,
                  nil, "openssl 4.0.2"],
    "opentelemetry-sdk" => ["open-telemetry/opentelemetry-ruby", nil, "opentelemetry-sdk/v1.13.0",
                            :minitest, %w[test/opentelemetry/sdk/{trace,resources}/**/*_test.rb],
                            nil, "sdk"],
    "rake" => ["ruby/rake", "v13.4.2", "v13.4.2", :test_unit, %w[test/test_*.rb]],
    "solid-cable" => ["rails/solid_cable", nil, "v4.0.0", :minitest,
                      %w[test/*_test.rb test/jobs/*_test.rb test/lib/action_cable/**/*_test.rb],
                      :solid_cable],
    "solid-cache" => ["rails/solid_cache", nil, "v1.0.10", :minitest,
                      %w[test/unit/*_test.rb test/models/**/*_test.rb], :solid_cache],
    "statsd-instrument" => ["Shopify/statsd-instrument", "v3.11.0", "v3.11.0", :minitest,
                            %w[test/*_test.rb test/compiled_metric/*_test.rb], :no_rubocop],
    "tty-command" => ["piotrmurach/tty-command", "v0.10.1", "v0.10.1", :rspec,
                      %w[spec/**/*_spec.rb]],
    "with-advisory-lock" => ["ClosureTree/with_advisory_lock", nil, "v7.5.0", :minitest,
                             %w[test/**/*_test.rb], :advisory_lock],
    "beaneater" => ["beanstalkd/beaneater", "v1.1.3", "v1.1.3", :minitest, %w[test/*_test.rb],
                    :beanstalkd],
    "faraday-net_http" => ["lostisland/faraday-net_http", "v3.4.2", "v3.4.2", :rspec,
                           %w[spec/**/*_spec.rb]],
    "faraday-net_http_persistent" => ["lostisland/faraday-net_http_persistent", "v2.3.0", "v2.3.0",
                                      :rspec, %w[spec/**/*_spec.rb]],
    "faraday-retry" => ["lostisland/faraday-retry", "v2.4.0", "v2.4.0", :rspec,
                        %w[spec/**/*_spec.rb]],
    "io-console" => ["ruby/io-console", "v0.8.2", "v0.8.2", :test_unit,
                     %w[test/io/console/test_*.rb]],
    "logger" => ["ruby/logger", "v1.7.0", "v1.7.0", :test_unit, %w[test/logger/test_*.rb]],
    "mail" => ["mikel/mail", "2.9.1", "2.9.1", :rspec, %w[spec/mail/**/*_spec.rb]],
    "midi-smtp-server" => ["4commerce-technologies-AG/midi-smtp-server", "release/3.2.1",
                           "release/3.2.1", :minitest, MIDI],
    "net-ldap" => ["ruby-ldap/ruby-net-ldap", "v0.20.0", "v0.20.0", :test_unit,
                   %w[test/**/test_*.rb], :slapd],
    "net-scp" => ["net-ssh/net-scp", "v4.1.0", "v4.1.0", :test_unit, %w[test/test_[!a]*.rb], nil,
                  nil, "net-ssh < 8"],
    "net-sftp" => ["net-ssh/net-sftp", "v4.0.0", "v4.0.0", :minitest,
                   %w[test/test_[!a]*.rb test/protocol/**/test_*.rb], nil, nil, "net-ssh < 8"],
    "open3" => ["ruby/open3", "v0.2.1", "v0.2.1", :test_unit, %w[test/test_*.rb]],
    "pstore" => ["ruby/pstore", "v0.2.1", "v0.2.1", :test_unit, %w[test/test_*.rb]],
    "redis-namespace" => ["resque/redis-namespace", "v1.11.0", "v1.11.0", :rspec,
                          %w[spec/*_spec.rb], :redis_namespace],
    "redlock" => ["leandromoreira/redlock-rb", "2.0.6", "2.0.6", :rspec, %w[spec/*_spec.rb],
                  :redlock],
    "slack-ruby-client" => ["slack-ruby/slack-ruby-client", nil, "v3.2.0", :rspec,
                            %w[spec/slack/**/*_spec.rb]],
    "stomp" => ["stompgem/stomp", "v1.4.10", "v1.4.10", :test_unit, %w[test/test_*.rb], :stomp],
    "tempfile" => ["ruby/tempfile", "v0.3.1", "v0.3.1", :test_unit, %w[test/test_*.rb]],
    "terrapin" => ["thoughtbot/terrapin", "v1.1.1", "v1.1.1", :rspec, %w[spec/**/*_spec.rb]],
    "tty-prompt" => ["piotrmurach/tty-prompt", "v0.23.1", "v0.23.1", :rspec,
                     %w[spec/unit/**/*_spec.rb]],
    "websocket-driver" => ["faye/websocket-driver-ruby", "0.8.0", "0.8.0", :rspec,
                           %w[spec/websocket/**/*_spec.rb]],
    "dogstatsd" => ["DataDog/dogstatsd-ruby", "v5.7.1", "v5.7.1", :rspec, %w[spec/**/*_spec.rb]],
    "eventmachine" => ["eventmachine/eventmachine", "v1.2.7", "v1.2.7", :test_unit, EVENT_MACHINE,
                       :installed],
    "ferrum" => ["rubycdp/ferrum", nil, "v0.18.0", :rspec, FERRUM, :browser],
    "grape" => ["ruby-grape/grape", nil, "v3.2.1", :rspec, %w[spec/grape/**/*_spec.rb],
                :grape],
    "capybara" => ["teamcapybara/capybara", nil, "3.40.0", :rspec,
                   %w[spec/{capybara,counter,result,selector,server}_spec.rb spec/rspec/*_spec.rb],
                   :capybara],
    "prometheus-client" => ["prometheus/client_ruby", "v4.2.5", "v4.2.5", :rspec,
                            %w[spec/prometheus/**/*_spec.rb]],
    "rack-attack" => ["rack/rack-attack", "v6.8.0", "v6.8.0", :minitest,
                      %w[spec/*_spec.rb spec/acceptance/**/*_spec.rb spec/integration/*_spec.rb],
                      :active_support],
    "rack-protection" => ["sinatra/sinatra", "v4.2.1", "v4.2.1", :rspec, %w[spec/lib/**/*_spec.rb],
                          nil, "rack-protection"],
    "rack-test" => ["rack/rack-test", "v2.2.0", "v2.2.0", :minitest, %w[spec/**/*_spec.rb]],
    "redis-mutex" => ["kenn/redis-mutex", "v4.0.2", "v4.0.2", :rspec, %w[spec/*_spec.rb],
                      :default_redis],
    "sentry-ruby" => ["getsentry/sentry-ruby", nil, "6.6.2", :rspec, %w[spec/sentry/**/*_spec.rb],
                      nil, "sentry-ruby"],
    "sinatra-contrib" => ["sinatra/sinatra", nil, "v4.2.1", :rspec, CONTRIB, nil,
                          "sinatra-contrib"],
    "warden" => ["wardencommunity/warden", "v1.2.9", "v1.2.9", :rspec, %w[spec/**/*_spec.rb]],
    "async" => ["socketry/async", nil, "v2.43.0", :sus, ASYNC],
    "async-pool" => ["socketry/async-pool", nil, "v0.11.2", :sus, %w[test/**/*.rb]],
    "curb" => ["gem:curb", "1.4.1", "1.4.1", :test_unit, CURB, :installed],
    "ethon" => ["typhoeus/ethon", "v0.18.0", "v0.18.0", :rspec, %w[spec/**/*_spec.rb]],
    "graphql" => ["rmosolgo/graphql-ruby", "v2.6.9", "v2.6.9", :minitest, GRAPHQL, :graphql],
    "net-http" => ["ruby/net-http", "v0.9.1", "v0.9.1", :test_unit, %w[test/net/http/test_*.rb]],
    "patron" => ["toland/patron", "v0.13.4", "v0.13.4", :rspec, %w[spec/*_spec.rb], :patron,
                 nil, "rack < 3"],
    "rack-session" => ["rack/rack-session", "v2.1.2", "v2.1.2", :minitest, %w[test/spec_*.rb]],
    "rack-timeout" => ["zombocom/rack-timeout", "v0.7.0", "v0.7.0", :test_unit,
                       %w[test/*_test.rb]],
    "typhoeus" => ["typhoeus/typhoeus", "v1.4.1", "v1.4.1", :rspec, TYPHOEUS, :old_handler, nil,
                   "rack < 3,sinatra < 4"],
    "concurrent-ruby" => ["ruby-concurrency/concurrent-ruby", "v1.3.7", "v1.3.7", :rspec,
                          CONCURRENT],
    "connection_pool" => ["mperham/connection_pool", "v2.5.5", "v3.0.2", :minitest,
                          %w[test/test_*.rb]],
    "dalli" => ["petergoldstein/dalli", "v4.3.3", "v5.0.6", :minitest, %w[test/**/test_*.rb],
                :memcached],
    "excon" => ["excon/excon", "v1.5.0", "v1.5.0", :rspec,
                %w[spec/excon_spec.rb spec/excon/error_spec.rb spec/requests/*_spec.rb]],
    "faraday" => ["lostisland/faraday", "v2.14.2", "v2.14.2", :rspec,
                  %w[spec/faraday/**/*_spec.rb spec/faraday_spec.rb]],
    "drb" => ["ruby/drb", "v2.2.3", "v2.2.3", :test_unit, %w[test/drb/test_*.rb]],
    "http" => ["httprb/http", nil, "v6.0.4", :minitest,
               %w[test/http_test.rb test/http/**/*_test.rb]],
    "httparty" => ["ruby-httparty", "0.21.0-1", "0.21.0-1", :rspec, %w[spec/**/*_spec.rb]],
    "httpx" => ["HoneyryderChuck/httpx", "v1.8.1", "v1.8.1", :minitest, HTTPX, :nobody],
    "mysql2" => ["ruby-mysql2", "0.5.7-1", "0.5.7-1", :rspec, %w[spec/mysql2/*_spec.rb], :mariadb],
    "net-ftp" => ["ruby/net-ftp", "v0.3.9", "v0.3.9", :test_unit, %w[test/net/ftp/test_*.rb]],
    "net-http-persistent" => ["drbrain/net-http-persistent", "v4.0.8", "v4.0.8", :minitest,
                              %w[test/test_*.rb]],
    "net-imap" => ["ruby/net-imap", "v0.5.15", "v0.6.6", :test_unit, IMAP],
    "net-pop" => ["ruby/net-pop", "v0.1.2", "v0.1.2", :test_unit, %w[test/net/pop/test_*.rb]],
    "net-smtp" => ["ruby/net-smtp", "v0.5.1", "v0.5.1", :test_unit, %w[test/net/smtp/test_*.rb]],
    "net-ssh" => ["ruby-net-ssh", "1:7.3.0-1", "1:7.3.0-1", :minitest, SSH],
    "pg" => ["ged/ruby-pg", "v1.6.3", "v1.6.3", :rspec, %w[spec/**/*_spec.rb], :own_postgresql],
    "puma" => ["puma/puma", "v8.0.2", "v8.0.2", :minitest, PUMA],
    "rack" => ["rack/rack", "v3.2.7", "v3.2.7", :minitest, %w[test/spec_*.rb]],
    "redis" => ["redis/redis-rb", "v5.4.1", "v5.4.1", :minitest, REDIS, :redis],
    "redis-client" => ["redis-rb/redis-client", "v0.30.0", "v0.30.0", :megatest, REDIS_CLIENT,
                       :toxic_redis],
    "resolv" => ["ruby/resolv", "v0.7.1", "v0.7.1", :test_unit, %w[test/resolv/test_*.rb]],
    "rest-client" => ["rest-client/rest-client", "v2.1.0", "v2.1.0", :rspec,
                      %w[spec/unit/*_spec.rb spec/integration/integration_spec.rb]],
    "rinda" => ["ruby/rinda", "v0.2.0", "v0.2.0", :test_unit, %w[test/rinda/test_*.rb]],
    "roda" => ["jeremyevans/roda", "3.107.0", "3.107.0", :minitest, %w[spec/**/*_spec.rb]],
    "sequel" => ["jeremyevans/sequel", "5.106.0", "5.106.0", :minitest, SEQUEL_CORE],
    "sequel-pg" => ["ruby-sequel", "5.63.0-2", "5.63.0-2", :minitest, SEQUEL, :postgresql],
    "sinatra-base" => ["sinatra/sinatra", "v4.2.1", "v4.2.1", :minitest, SINATRA],
    "sqlite3" => ["sparklemotion/sqlite3-ruby", "v2.8.1", "v2.9.6", :minitest,
                  %w[test/test_*.rb]],
    "timeout" => ["ruby/timeout", "v0.6.1", "v0.6.1", :test_unit, %w[test/test_*.rb]],
    "trilogy" => ["trilogy-libraries/trilogy", "v2.13.0", "v2.13.0", :minitest,
                  %w[test/*_test.rb], :mysql, "contrib/ruby"],
    "webmock" => ["bblimke/webmock", "v3.26.2", nil, :rspec, %w[spec/**/*_spec.rb]],
    "webrick" => ["ruby/webrick", "v1.9.2", "v1.9.2", :test_unit, %w[test/webrick/test_*.rb]]
  }.freeze

  # @param api [String] of the Ruby, such as "3.4"
  # @return [Array<Suite>] what can be run on it
  def self.suites(api)
    version = RUBIES[api] or return []
    ruby = { ruby: PARTS, mspec: SPECS }.flat_map do |kind, parts|
      parts.map do |part, paths|
        Suite.new("#{kind == :ruby ? "ruby" : "spec"}-#{part}", "ruby#{api}", version, kind, paths)
      end
    end
    ruby + gems(api) + Rails.suites(api)
  end

  def self.gems(api)
    GEMS.merge(Jobs::GEMS).filter_map do |name, (source, old, new, kind, *rest)|
      version = api == "3.1" ? old : new
      Suite.new(name, source, version, kind, *rest) if version
    end
  end
end
