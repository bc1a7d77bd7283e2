# frozen_string_literal: true

require_relative "program"
require_relative "../support/browser"
require_relative "../support/missing"
require_relative "../support/ports"
require "net/http"

# What a server tells of jobs that run in its own process, as Active Job's `:async` has them.
class ServerJobsTest < Minitest::Test
  include ServerProgram

  APPLICATION = <<~'RUBY'
    require "logger"
    require "rails"
    require "active_job/railtie"
    require "neverblock"

    class Small < Rails::Application
      config.eager_load = false
      config.logger = Logger.new(File::NULL)
      config.active_job.queue_adapter = ActiveJob::QueueAdapters::AsyncAdapter.new(max_threads: 20)
    end
    Small.initialize!

    Refused = Class.new(StandardError)
    class AnyJob < ActiveJob::Base
      retry_on(EOFError, wait: 0, attempts: 3)
      discard_on Refused

      def perform(what)
        sleep 0.005 until File.exist?("go") if what == "runs"
        raise Refused if what == "discarded"
        raise EOFError if what == "retried" && executions < 3
        raise what if what == "failed"
      end
    end
    run lambda { |env|
      what = env["PATH_INFO"].delete_prefix("/")
      AnyJob.perform_later(what) unless what.empty?
      [200, {}, [what]]
    }
  RUBY

  def setup
    super
    File.write("#{@dir}/config.ru", APPLICATION)
    @port = Ports.free
    launch(*nb("serve", "-b", "tcp://127.0.0.1:#{@port}", "--page"),
      env: {"RAILS_ENV" => "production"})
  end

  def teardown
    @browser&.close
    super
  end

  def test_metrics_count_jobs_by_how_they_end
    enqueue("runs" => 3, "done" => 2, "failed" => 1, "discarded" => 4, "retried" => 1)
    expected = {"done" => 3, "failed" => 1, "retried" => 2, "discarded" => 4, "stopped" => 0}
    eventually { expected == ended && running == 3 }
    go
    eventually { expected.merge("done" => 6) == ended && running.zero? }
    assert_operator metrics[/^nb_jobs_seconds_total\S* (\S+)/, 1].to_f, :>, 0
  end

  def test_the_page_shows_jobs_beside_requests
    enqueue("done" => 1, "failed" => 2)
    chromium = ENV["PATH"].split(":").map { |folder| "#{folder}/chromium" }
      .find { |file| File.executable?(file) }
    chromium || missing("chromium")
    @browser = Browser.new(chromium)
    @browser.open("http://127.0.0.1:#{@port}/neverblock/")
    eventually { tiles.any? { |tile| tile.match?(/\AJobs\n0\n2 failed/) } }
    enqueue("runs" => 3)
    eventually { tiles.any? { |tile| tile.match?(/\AJobs\n3\n2 failed/) } }
    assert_empty @browser.complaints
    go
  end

  private

  def enqueue(counts)
    counts.each do |what, count|
      count.times { assert_equal what, Net::HTTP.get(URI("http://127.0.0.1:#{@port}/#{what}")) }
    end
  end

  def metrics = NB::Server::Control.ask(@control, "/metrics")

  def ended
    metrics.scan(/^nb_jobs_total\{.*status="(\w+)"\} (\d+)/).to_h { |how, n| [how, n.to_i] }
  end

  def running = metrics[/^nb_jobs_running\S* (\d+)/, 1].to_i
  def so_far = [log, metrics.lines.grep(/^nb_jobs/), @browser && tiles].join("\n")

  def tiles
    @browser.evaluate("[...document.querySelectorAll('.tiles > div')].map(one => one.innerText)")
  end
end
