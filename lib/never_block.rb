# frozen_string_literal: true

require "neverblock/legacy/all"
