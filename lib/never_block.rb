# frozen_string_literal: true

require "neverblock/legacy/all"
begin
  require "eventmachine" # which the gem of 2008 loaded too
rescue LoadError
  nil # then the program does not name it
else
  require "neverblock/eventmachine"
end
