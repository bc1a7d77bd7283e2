# frozen_string_literal: true

# A Rails application in one file: a page of questions, each of which a job asks a language model.
# The words of the answer appear on every open page as they come: by Turbo Streams, over Action
# Cable. Requests and jobs are fibers of one loop.

ENV["BUNDLE_GEMFILE"] ||= File.expand_path("Gemfile", __dir__)
require "bundler/setup" unless ENV["GEM_HOME"] # which says where the gems are
require "rails"
require "action_cable/engine"
require "action_controller/railtie"
require "active_job/railtie"
require "neverblock"
require "ruby_llm"
require "turbo-rails"

# The application.
class Answers < Rails::Application
  config.root = __dir__
  config.load_defaults Rails::VERSION::STRING.to_f
  config.eager_load = true
  config.logger = Logger.new($stderr)
  config.log_level = :warn
  config.secret_key_base = "an example has no secrets"
  config.hosts.clear
  # Both keep words in order. All other adapters hand messages to several threads of Action Cable,
  # where one may overtake the one before it.
  config.action_cable.cable = { "adapter" => "inline" } # for one process
  config.action_cable.worker_pool_size = 1
  config.action_cable.disable_request_forgery_protection = true # any Origin may connect
  # In fibers of the server's loop. For a queue that survives a restart: docs/JOBS.md.
  config.active_job.queue_adapter =
    ActiveJob::QueueAdapters::AsyncAdapter.new(min_threads: 0, max_threads: 1000)

  routes.append do
    root "questions#index"
    post "ask" => "questions#ask"
    mount Rack::Files.new(Turbo::Engine.root.join("app/assets/javascripts").to_s) => "/turbo"
  end
end

RubyLLM.configure do |config|
  config.openai_api_base = ENV.fetch("LLM", "http://127.0.0.1:9494/v1")
  config.openai_api_key = ENV.fetch("LLM_KEY", "none")
  config.logger = Rails.logger
end

# Asks the model one question, and shows the answer while it comes.
class AnswerJob < ActiveJob::Base
  MODEL = { model: ENV.fetch("LLM_MODEL", "echo"), provider: :openai,
            protocol: :chat_completions, assume_model_exists: true }.freeze
  # A page is told of new words at most so often, in seconds.
  PACE = 0.1

  def perform(question, line)
    @line = line
    @words = +""
    RubyLLM.chat(**MODEL).ask(question) do |chunk|
      @words << chunk.content.to_s
      show if now - @shown.to_f >= PACE
    end
  ensure
    show unless @words.empty?
  end

  private

  def show
    html = ERB::Util.html_escape(@words)
    Turbo::StreamsChannel.broadcast_append_to("answers", target: @line, html: html)
    @words = +""
    @shown = now
  end

  def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
end

# The page, and the questions that it sends.
class QuestionsController < ActionController::Base
  PAGE = File.read("#{__dir__}/page.html.erb")

  def index = render(inline: PAGE, layout: false)

  # `count=1000` asks it so often at once.
  def ask
    count = Integer(params.fetch(:count, "1")).clamp(1, 1000)
    count.times do
      line = "line_#{SecureRandom.hex(4)}"
      Turbo::StreamsChannel.broadcast_append_to("answers", target: "answers",
                                                           html: helpers.tag.p(id: line))
      AnswerJob.perform_later(params.require(:question), line)
    end
    head :no_content
  end
end

Answers.initialize!
