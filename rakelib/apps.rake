# frozen_string_literal: true

desc "Serve applications that others wrote (all, or those of the names given), and compare servers"
task apps: :compile do |_, arguments|
  require_relative "apps/command"
  Apps::Command.new(arguments.to_a).run or abort "see the lines above"
end
