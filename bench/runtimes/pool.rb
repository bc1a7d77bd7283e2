# frozen_string_literal: true

# A hundred threads that take jobs from a queue.
Bench.runtime "pool" do
  label "thread pool (100)"
  enter do |work|
    @jobs = Thread::Queue.new
    threads = Array.new(100) do
      Thread.new do
        while (job = @jobs.pop)
          job.call
        end
      end
    end
    work.call
    @jobs.close
    threads.each(&:join)
  end
  spawn { |job| @jobs << job }
end
