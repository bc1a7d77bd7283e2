# frozen_string_literal: true

# Belongs to a request, and is kept in the thread.
class Current
  def self.user = Thread.current.thread_variable_get(:user)
  # thread_variable_set in a comment is no finding
end
