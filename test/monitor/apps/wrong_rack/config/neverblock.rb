# frozen_string_literal: true

fibers 100_000
request_timeout(-1)
