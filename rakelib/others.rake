# frozen_string_literal: true

desc "Run other projects' own tests (all, or those of the names given) plain and inside NB"
task others: :compile do |_, arguments|
  require_relative "others/command"
  Others::Command.new(arguments.to_a).run or abort "see the lines above"
end
