# frozen_string_literal: true

require "rails/helper"

# Development: classes are replaced while requests run, and each request keeps those that it began
# with.
class RailsReloadTest < Minitest::Test
  CLASSES = "#{RailsApp::FOLDER}/classes".freeze
  FileUtils.mkdir_p(CLASSES)

  def self.write(number)
    File.write("#{CLASSES}/version.rb", <<~RUBY)
      class Version
        NUMBER = #{number}
        def self.number = NUMBER
      end
    RUBY
  end

  write(0)
  RailsApp.load("neverblock_sqlite3", RAILS_ENV: "development", APP_CLASSES: CLASSES)

  def test_code_is_reloaded_under_load
    bodies = RailsApp.serve(fibers: 32) do |port|
      NB.run do
        NB.map(1..200, concurrency: 16) do |number|
          self.class.write(number / 20) if (number % 20).zero?
          get(port)
        end
      end
    end
    assert_empty bodies.grep_v(/\A\d+\z/).first(3), "a request saw two versions, or an error"
    assert_operator bodies.uniq.size, :>, 3, "nothing was reloaded"
  end

  class StreamController < ActionController::Base
    include ActionController::Live

    def show
      response.stream.write("42")
    ensure
      response.stream.close
    end
  end

  # What a request may start and wait for.
  PARTS = {
    "async" => -> { NB.async { NB.async { "42" }.value }.value },
    "gather" => -> { NB.gather(-> { NB.async { "42" }.value }).first },
    "live" => lambda do
      _, _, body = StreamController.action(:show).call(Rack::MockRequest.env_for("/"))
      parts = +""
      body.each { |part| parts << part }
      parts
    end
  }.freeze

  # Who wants to reload waits for the request, and lets no other begin.
  PARTS.each do |name, part|
    define_method("test_a_request_goes_on_while_others_wait_for_its_end_#{name}") do
      interlock = ActiveSupport::Dependencies.interlock
      NB.run do
        reloads = Thread::Queue.new
        ended = false
        request = NB.async do
          Rails.application.executor.wrap do
            reloads.pop
            part.call.tap { ended = true }
          end
        end
        loader = NB.async { Rails.application.executor.wrap { interlock.unloading { ended } } }
        sleep(0.001) until interlock.raw_state { |all| all.any? { |_, one| one[:waiting] } }
        reloads.close
        assert_equal "42", NB.timeout(20) { request.value }
        assert NB.timeout(20) { loader.value }
      end
    end
  end

  private

  def get(port) = Timeout.timeout(60) { Net::HTTP.get(URI("http://127.0.0.1:#{port}/version")) }
end
