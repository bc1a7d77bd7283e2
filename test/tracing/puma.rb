# frozen_string_literal: true

require File.expand_path("../support/puma_stop", __dir__)
threads 1, 1
plugin :neverblock
quiet
