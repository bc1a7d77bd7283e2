# frozen_string_literal: true

threads 1, 1
plugin :neverblock
quiet
