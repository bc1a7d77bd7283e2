# frozen_string_literal: true

class LiveController < ApplicationController
  include ActionController::Live

  before_action { Current.person = params[:person] }

  def show
    response.headers["content-type"] = "text/event-stream"
    stream = SSE.new(response.stream)
    3.times do |i|
      stream.write({ i: i, person: Current.person, thread: Thread.current.object_id,
                     zone: Time.zone.name, count: Account.count })
      sleep 0.01
    end
  ensure
    stream.close
  end
end
