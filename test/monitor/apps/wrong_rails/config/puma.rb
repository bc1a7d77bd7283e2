# frozen_string_literal: true

threads 5, 5
fiber_per_request
plugin :neverblock
