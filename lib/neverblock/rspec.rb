# frozen_string_literal: true

require "rspec/core"
require_relative "testing/test_loop"

# Runs each example that has the metadata `clock:` in a loop of its own, with its `before`, `after`
# and `around` hooks. An example fails if a task failed and nobody waited for it, or if a task is
# left when the example ends.
#
# @example
#   require "neverblock/rspec"
#
#   RSpec.describe Mailer, clock: :virtual do # sleeps and timeouts take no time; or clock: :real
#     it "tries for an hour" do
#       expect { NB.timeout(3600) { Mailer.new(down).deliver } }.to raise_error(Timeout::Error)
#     end
#   end
# @see NB.run NB.run, `clock:`, about virtual time
RSpec.configure do |config|
  config.around(:each, :clock) do |example|
    problems = NB::TestLoop.run(clock: example.metadata[:clock]) do
      example.run
      example.exception.nil?
    end
    problem = problems.first
    raise problem.class, problems.map(&:message).join("\n"), problem.backtrace if problem
  end
end
