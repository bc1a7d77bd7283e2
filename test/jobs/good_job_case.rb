# frozen_string_literal: true

require "jobs/helper"

# What the tests of GoodJob have in common.
module QueueApp::GoodJobCase
  include QueueApp::Common

  THERE = QueueApp.there?("good_job")
  # By GoodJob's own default a job that runs keeps a connection.
  # And only with the last one does it see at once that a process was killed; else in five minutes.
  SHARING = { lock_strategy: "skiplocked", poll_interval: 1, advisory_lock_heartbeat: true }.freeze
  MODES = { fibers: { fibers: true, threads: 50 }, threads: { threads: 10 } }.freeze
  QueueApp.load("good_job") if THERE

  def setup
    THERE ? QueueApp.empty : skip("gem good_job is not there for Ruby #{RUBY_VERSION}")
  end

  private

  def start(env: {}, **settings)
    (@programs ||= []) << QueueApp.good_job(env: env, **SHARING, **settings)
    @programs.last
  end

  def unfinished = GoodJob::Job.where(finished_at: nil)
  def done = eventually { unfinished.none? }

  def assert_none_left
    assert_empty GoodJob::Process.all
    assert_empty GoodJob::Job.where.not(locked_by_id: nil)
  end
end
