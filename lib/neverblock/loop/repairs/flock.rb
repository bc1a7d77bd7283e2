# frozen_string_literal: true

# File#flock on a file that somebody else has locked. No Ruby (3.1 to 3.4) asks the scheduler: the
# whole thread stops, and forever if another fiber of it holds the lock. Here the fiber tries, and
# sleeps in between. A native thread would not do: it could take the lock after its fiber was
# cancelled, for nobody.
module NB
  module Repairs
    FLOCK_PAUSES = [0.0005, 0.001, 0.002, 0.005, 0.01, 0.02].freeze # seconds; the last one repeats
    private_constant :FLOCK_PAUSES

    repair(File, :flock) do |original|
      proc do |operation|
        never_waits = !Repairs.loop_here || !operation.is_a?(Integer) ||
          operation.anybits?(File::LOCK_NB | File::LOCK_UN)
        next __send__(original, operation) if never_waits

        attempt = -1
        until (result = __send__(original, operation | File::LOCK_NB))
          sleep(FLOCK_PAUSES[attempt += 1] || FLOCK_PAUSES.last)
          raise IOError, "stream closed in another thread" if closed? # as in a thread
        end
        result
      end
    end
  end
end
