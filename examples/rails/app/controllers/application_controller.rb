# frozen_string_literal: true

# Each page counts its visitor and notes what it waits for.
class ApplicationController < ActionController::Base
  before_action do
    @waits = Waits.new
    @visits = @waits.for(ENV["REDIS_URL"] ? "Redis" : "visitors") { Visits.add }
  end
end
