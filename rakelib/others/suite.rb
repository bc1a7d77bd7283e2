# frozen_string_literal: true

module Others
  # A part of a project's own tests, and the Debian source package that brings them.
  Suite = Struct.new(:name, :package, :version, :runner, :paths)

  # The package of the very Ruby that runs; Debian has no other.
  RUBIES = { "3.1" => "3.1.2-7+deb12u1", "3.4" => "3.4.5-1~exp1" }.freeze

  # Parts of Ruby's own tests, each a list of files and folders in test/.
  PARTS = {
    "fiber" => %w[fiber],
    "monitor" => %w[monitor],
    "net" => %w[net],
    "openssl" => %w[openssl],
    "socket" => %w[socket],
    "thread" => %w[ruby/test_thread.rb ruby/test_thread_queue.rb ruby/test_thread_cv.rb],
    "timeout" => %w[test_timeout.rb]
  }.freeze

  # @param api [String] of the Ruby, such as "3.4"
  # @return [Array<Suite>] what can be run on it
  def self.suites(api)
    version = RUBIES[api] or return []
    PARTS.map do |part, paths|
      Suite.new("ruby-#{part}", "ruby#{api}", version, "test/runner.rb", paths)
    end
  end
end
