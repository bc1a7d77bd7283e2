# frozen_string_literal: true

class PagesController < ApplicationController
  def hello = render(plain: "hello")

  def slow
    Account.connection_pool.with_connection { |connection| connection.select_value(slow_query) }
    render(plain: "slow")
  end

  # What a request and the fibers it starts see of each other.
  def together
    Current.person = params[:person]
    I18n.locale = :de
    seen = NB.gather(
      -> { [Current.person, I18n.locale, Account.count, Account.connection_pool.stat[:busy]] },
      -> { Current.person = "child" }
    )
    render(json: seen + [Current.person])
  end

  def transfer
    Account.transaction do
      Account.where(id: 1).update_all("balance = balance - 1")
      sleep(params.fetch(:seconds, 0.001).to_f)
      Account.where(id: 2).update_all("balance = balance + 1")
    end
    render(plain: "done")
  end

  def job
    NoteJob.perform_later(params[:text])
    NoteJob.set(wait: 0.02.seconds).perform_later("later #{params[:text]}")
    render(plain: "queued")
  end

  def received
    raise "of the application" if params[:raise]

    render(plain: "#{params.to_unsafe_h.size} #{request.raw_post.bytesize}")
  end

  def login
    session[:admin] = params[:password] == "s3cret"
    render(plain: session[:admin].to_s)
  end

  private

  def slow_query
    seconds = params.fetch(:seconds, 0.1).to_f
    case Account.connection_db_config.adapter
    when "postgresql" then "SELECT pg_sleep(#{seconds})"
    when "mysql2", "trilogy" then "SELECT sleep(#{seconds})"
    else "SELECT 1"
    end
  end
end
