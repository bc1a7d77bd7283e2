# frozen_string_literal: true

Rails.application.routes.draw do
  root "products#index"
  resources(:products, only: :show) { resources :orders, only: :create }
  resources :orders, only: :show
end
