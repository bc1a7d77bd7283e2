# frozen_string_literal: true

# Loaded by `-r` into a program that a test starts: runs all of it where the tests run.
if ENV["OTHERS_INSIDE"]
  $LOAD_PATH.unshift(File.expand_path("../../lib", __dir__))
  require "neverblock"
  NB.run { load $PROGRAM_NAME }
  exit
end
