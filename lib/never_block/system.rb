# frozen_string_literal: true

require "never_block" # sleep, system and Timeout wait in the loop by themselves
