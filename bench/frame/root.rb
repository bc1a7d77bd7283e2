# frozen_string_literal: true

# What the parent process and the cells share: where the files are, and what the bench raises.
module Bench
  # The directory of bench.rb, and the root of the source tree.
  HOME = File.expand_path("..", __dir__)
  ROOT = File.dirname(HOME)

  # The bench was asked for something it cannot do; the message says what to do instead.
  class Error < StandardError; end

  # The request itself was wrong, such as a table that does not exist.
  class Misuse < Error; end
end
