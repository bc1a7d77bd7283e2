# frozen_string_literal: true

# A fiber that ends with a locked Mutex or Monitor. Ruby unlocks what a thread has locked when the
# thread ends. What a fiber has locked stays locked (all versions), and whoever wants it next waits
# forever. Here a fiber of the loop unlocks it when it ends. In C, in
# ext/neverblock/hooks/held_mutexes.c; from Ruby 4.1 on the list of locked mutexes is unknown there.
NB::Native.repair_mutex_end
