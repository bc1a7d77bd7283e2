# frozen_string_literal: true

require "neverblock"
require "fiber_scheduler_spec"

RSpec.describe NB::Scheduler do
  include_examples FiberSchedulerSpec
end
