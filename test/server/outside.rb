# frozen_string_literal: true

require "open3"
require "timeout"
require_relative "../support/missing"

# Programs that are not Ruby, and not ours, run against the server.
module Outside
  # Without the library of ASan that `rake asan` loads everywhere: Debian's curl hangs with it.
  BARE = {"LD_PRELOAD" => nil}.freeze

  # @return [String] where the program is; skips the test when it is not there
  def program(name)
    folders = [*ENV.fetch("PATH").split(":"), "/usr/sbin", "/sbin"]
    folders.map { |folder| File.join(folder, name) }.find { |path| File.executable?(path) } ||
      missing(name)
  end

  # Runs a program to its end.
  # @return [String] what it wrote to stdout; stderr counts as the message when it fails
  def run_program(name, *arguments, input: "", limit: 60)
    command = ["timeout", limit.to_s, program(name), *arguments.map(&:to_s)]
    out, error, status = Open3.capture3(BARE, *command, stdin_data: input, binmode: true)
    assert_predicate status, :success?, "#{command.join(" ")}\n#{out[0, 2000]}\n#{error[0, 2000]}"
    out
  end
end
