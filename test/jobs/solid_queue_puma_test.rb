# frozen_string_literal: true

require "jobs/helper"

# Solid Queue started by Puma's `plugin :solid_queue`, beside requests in threads and in fibers.
class SolidQueuePumaTest < Minitest::Test
  include QueueApp::Tests.on("postgresql")

  PLUGINS = { threads: [:solid_queue], fibers: %i[neverblock solid_queue] }.freeze

  PLUGINS.each do |requests, plugins|
    define_method("test_jobs_run_and_all_end_with_puma_beside_#{requests}") do
      puma(*plugins, env: gate(21))
      enqueue(CallJob, 100, 300)
      done
      assert_equal (1..100).to_a, notes("called").order(:number).pluck(:number)
      assert_operator most_at_once, :>, 20
      stop
      assert_none_left
    end
  end

  # Puma itself would wait for it forever, and nobody would run a job.
  def test_a_supervisor_that_hangs_in_its_fork_is_replaced
    file = "#{QueueApp::FOLDER}/unborn"
    File.write(file, "")
    puma(:solid_queue, env: { APP_UNBORN: file })
    enqueue(CallJob, 5, 10)
    done
    assert_equal 1, @programs.last.unborn.size
    refute_path_exists file
    stop
    assert_none_left
  end

  private

  def puma(*plugins, **options)
    (@programs ||= []) << QueueApp.puma(*plugins, fibers: 50, **options)
    @programs.last
  end
end
