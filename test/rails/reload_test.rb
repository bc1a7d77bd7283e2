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

  private

  def get(port) = Timeout.timeout(20) { Net::HTTP.get(URI("http://127.0.0.1:#{port}/version")) }
end
