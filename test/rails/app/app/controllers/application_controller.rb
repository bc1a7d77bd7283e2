# frozen_string_literal: true

class ApplicationController < ActionController::Base
  allowblock :hello # of 2008; does nothing
  neverblock :hello
  skip_forgery_protection
end
