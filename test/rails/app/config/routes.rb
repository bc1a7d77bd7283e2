# frozen_string_literal: true

Rails.application.routes.draw do
  get "/hello", to: "pages#hello"
  get "/slow", to: "pages#slow"
  get "/isolation", to: "isolation#show"
  get "/together", to: "pages#together"
  get "/transfer", to: "pages#transfer"
  get "/job", to: "pages#job"
  get "/file", to: "files#show"
  get "/stream", to: "files#stream"
  post "/upload", to: "files#upload"
  get "/live", to: "live#show"
  post "/login", to: "pages#login"
  post "/received", to: "pages#received"
  # As docs/OBSERVE.md has it with Devise, whose `authenticate` is such a constraint.
  constraints(->(request) { request.session[:admin] }) do
    mount NB::Page.new(allow: :all) => "/loop"
  end
  get "/version", to: "versions#show" if Rails.env.development?
end
