# frozen_string_literal: true

# Sets everything that belongs to one request, waits, and tells what it finds then.
class IsolationController < ApplicationController
  def show
    id = params[:id].to_i
    before = left_behind
    write(id)
    logger.tagged("tag#{id}") do
      role(id) do
        rand(1..4).times do
          Account.exists?(id)
          sleep(rand * 0.02)
        end
        render(json: { before: before, seen: read })
      end
    end
  end

  private

  def left_behind
    [Current.person, Thread.current[:mine], RequestStore[:mine], I18n.locale.to_s, Time.zone.name,
     ActiveSupport::ExecutionContext.to_h[:mine]]
  end

  def write(id)
    Current.person = id
    Thread.current[:mine] = id
    RequestStore[:mine] = id
    I18n.locale = %i[en de fr][id % 3]
    Time.zone = ["UTC", "Hawaii", "Tokyo"][id % 3]
    Rails.error.set_context(mine: id)
    session[:mine] = id
    flash[:notice] = "flash #{id}"
  end

  def role(id, &block)
    ActiveRecord::Base.connected_to(role: id.even? ? :writing : :reading, &block)
  end

  def read
    { current: Current.person, local: Thread.current[:mine], store: RequestStore[:mine],
      locale: I18n.locale, zone: Time.zone.name, session: session[:mine], flash: flash[:notice],
      error: ActiveSupport::ExecutionContext.to_h[:mine], role: ActiveRecord::Base.current_role,
      tags: logger.formatter.current_tags.last }
  end
end
