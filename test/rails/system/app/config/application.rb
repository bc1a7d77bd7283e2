# frozen_string_literal: true

require "logger"
require "rails"
require "action_controller/railtie"
require "action_cable/engine"
require "neverblock"

# A page that talks over ActionCable and listens to ActionController::Live.
class TalkApplication < Rails::Application
  config.root = File.expand_path("..", __dir__)
  config.load_defaults Rails::VERSION::STRING.to_f
  config.eager_load = true
  config.enable_reloading = false
  config.logger = Logger.new($stderr)
  config.log_level = :warn
  config.secret_key_base = "no secret"
  config.hosts.clear
  config.active_support.isolation_level = :fiber
  config.action_controller.default_protect_from_forgery = false # it would not send a script
  config.action_cable.disable_request_forgery_protection = true
  config.action_cable.cable = { "adapter" => "async" }

  routes.append do
    root "talk#page"
    get "actioncable.js", to: "talk#client"
    get "clock", to: "clock#ticks"
  end
end

module ApplicationCable
  class Connection < ActionCable::Connection::Base; end
  class Channel < ActionCable::Channel::Base; end
end

# Everybody hears what one says.
class RoomChannel < ApplicationCable::Channel
  def subscribed = stream_from("room")
  def speak(data) = ActionCable.server.broadcast("room", { text: data["text"] })
end

# The page, and Rails' own client for it.
class TalkController < ActionController::Base
  CLIENT = ActionCable::Engine.root.join("app/assets/javascripts/actioncable.esm.js")
  PAGE = File.expand_path("../page.html", __dir__)

  def page = render(file: PAGE, layout: false)
  def client = send_file(CLIENT, type: "text/javascript", disposition: "inline")
end

# Server-sent events, one each 50 ms.
class ClockController < ActionController::Base
  include ActionController::Live

  def ticks
    response.headers["content-type"] = "text/event-stream"
    response.headers["last-modified"] = Time.now.httpdate # else Rack::ETag collects it all
    5.times do |number|
      response.stream.write("data: #{number}\n\n")
      sleep 0.05
    end
    response.stream.write("data: end\n\n")
  ensure
    response.stream.close
  end
end
