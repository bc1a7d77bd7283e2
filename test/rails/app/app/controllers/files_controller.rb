# frozen_string_literal: true

class FilesController < ApplicationController
  def show = send_file(Rails.root.join("config.ru"), type: "text/plain")

  def stream
    response.headers["content-type"] = "text/plain"
    self.response_body = Enumerator.new do |parts|
      3.times do |i|
        parts << "part #{i}\n"
        sleep 0.01
      end
    end
  end

  def upload
    blob = ActiveStorage::Blob.create_and_upload!(io: params[:file], filename: "a.txt")
    render(plain: rails_storage_proxy_path(blob))
  end
end
