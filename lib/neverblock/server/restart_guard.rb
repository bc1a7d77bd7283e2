# frozen_string_literal: true

# What a program that USR2 has started loads before anything else, by RUBYOPT. If it ends before it
# has taken over the workers of the program before, it stays as their master: without a gem that
# Bundler looks for, say, or under rackup for an application that does not load.
#
# It also is a daemon already if the program before was one (rackup -D, rails server -d): another
# fork would part the workers from their master. Its children may become daemons.
#
# Loads nothing, and defines nothing else, unless that happens.
lambda do |own, pid|
  options = ENV["RUBYOPT"].to_s.split - [own]
  ENV["RUBYOPT"] = options.empty? ? nil : options.join(" ")
  Process.singleton_class.prepend(Module.new do
    define_method(:daemon) { |*arguments| Process.pid == pid ? 0 : super(*arguments) }
  end)
  at_exit do
    next if Process.pid != pid || ENV["NB_OLD_WORKERS"].to_s.empty? || $!.is_a?(SignalException)

    require_relative "launcher"
    what = $!.full_message if $! && !$!.is_a?(SystemExit)
    config = NB::Server::Config.new.blame("#{what}The program ended while it started")
    NB::Server::Launcher.new(config).run
    $stdout.flush
    exit!(0) # what it had failed with is no longer its status
  end
end.call("-r#{__FILE__}", Process.pid)
