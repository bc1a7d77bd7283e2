# frozen_string_literal: true

class RoomChannel < ApplicationCable::Channel
  def subscribed = stream_from("room")

  def say(data)
    ActionCable.server.broadcast("room", { text: data["text"], count: Account.count })
  end
end
