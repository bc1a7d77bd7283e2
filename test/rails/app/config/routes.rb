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
  get "/version", to: "versions#show" if Rails.env.development?
end
