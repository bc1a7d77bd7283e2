# frozen_string_literal: true

# Belongs to a request, and is kept in the thread.
class Current
  def self.user = Thread.current.thread_variable_get(:user)
  # thread_variable_set in a comment is no finding

  # In a loop this one belongs to the fiber.
  CLIENT = Concurrent::ThreadLocalVar.new
end

Thread.attr_accessor :shop

class Thread
  alias name_of_the_shop name
  attr_writer :page
end

# A client for each thread.
class Shop
  @clients = {}
  def self.client = @clients[Thread.current] ||= new
  def self.kept?(one) = @clients[Thread.current] == one # reads only
  def self.name = Thread.current[:shop] ||= "the fiber's own"
end
