# frozen_string_literal: true

# On a busy machine, requests wait for their turn.
queue_timeout 60
