# frozen_string_literal: true

# Two of TechEmpower's pages in Rails.

require_relative "../rails_settings"
require "action_view/railtie"

# Its routes and settings.
class TechEmpowerRails < Rails::Application
  RailsSettings.apply(config, __dir__)

  routes.append do
    get "hello", to: "pages#hello"
    get "json", to: "pages#json"
    get "fortunes", to: "pages#fortunes"
  end
end

# A row of the table.
class Fortune < ActiveRecord::Base
  self.table_name = "fortune"
end

# What TechEmpower asks of both: the headers, and one more fortune than the table has.
class PagesController < ActionController::Base
  before_action { response.headers.merge!("server" => "bench", "date" => Time.now.httpdate) }

  def hello = render(plain: "Hello, World!")
  def json = render(json: { message: "Hello, World!" })

  def fortunes
    added = Fortune.new(id: 0, message: "Additional fortune added at request time.")
    @fortunes = [*Fortune.all, added].sort_by(&:message)
    render layout: false
  end
end

TechEmpowerRails.initialize!
