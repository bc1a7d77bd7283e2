# frozen_string_literal: true

require "never_block"
require "neverblock/legacy/thin"
