# frozen_string_literal: true

require "tmpdir"

# What HoldingProxy is for servers: holds a statement of SQLite, by another connection's lock.
class LockGate
  # What the other connection does, so that our statement waits.
  LOCKS = {
    begin: "BEGIN IMMEDIATE", write: "BEGIN IMMEDIATE",
    commit: "BEGIN; SELECT count(*) FROM interrupted_matrix" # a reader: writes wait at COMMIT
  }.freeze

  # @param statement [Symbol] a key of LOCKS
  # @param seconds [Float] for which it is held
  def initialize(statement, seconds)
    @statement = statement
    @seconds = seconds
    @folder = Dir.mktmpdir("nb")
    @other = SQLite3::Database.new(port)
    @other.execute("CREATE TABLE interrupted_matrix (cell int, n int)")
  end

  # @return [String] the path of a database of its own
  def port = File.join(@folder, "matrix.db")

  # Holds it from now on.
  def arm(_, _)
    lock, read = LOCKS.fetch(@statement).split("; ")
    @other.execute(lock)
    @reading = read && @other.prepare(read).tap(&:step)
    @releasing = Thread.new { sleep(@seconds) && release }
  end

  # The application's strand stops at nothing else.
  def held(_) = true
  def held? = true

  def settle = @releasing.join

  def close
    @releasing&.join
    @other.close
    FileUtils.rm_rf(@folder)
  end

  private

  def release
    @reading&.close
    @other.execute("ROLLBACK")
  end
end
