# frozen_string_literal: true

# A process that runs the jobs of Solid Queue, as `bin/jobs` of an application is.
require_relative "application"
require "solid_queue/cli"

SolidQueue::Cli.start(ARGV)
