# frozen_string_literal: true

# Process.wait for any child, in a handler of CHLD that reaps whatever has ended. A thread that
# waits for a child in waitpid(2) gets it before such a handler. A fiber waits in the loop, and the
# handler came first (all versions): Process.wait raised ECHILD, and `system` returned true,
# whatever the child's status. Here the children that fibers wait for are reaped for them first.
module NB
  module Repairs
    { Process => %i[wait wait2 waitpid waitpid2 waitall],
      Process::Status => %i[wait] }.each do |owner, names|
      names.each do |name|
        repair(owner.singleton_class, name) do |original|
          proc do |*arguments|
            pid = arguments.first
            Native.reap_awaited unless (pid.is_a?(Integer) && pid.positive?) || !Repairs.main?
            __send__(original, *arguments)
          end
        end
      end
    end
  end
end
