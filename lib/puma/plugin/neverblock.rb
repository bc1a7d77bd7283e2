# frozen_string_literal: true

require "puma"
require "puma/plugin"
require "puma/server"
begin
  require "neverblock"
rescue ArgumentError => error # NB_DRIVERS: Puma would print a backtrace
  abort "neverblock: #{error.message}"
end
require "neverblock/puma/fiber_pool"

# `plugin :neverblock` in config/puma.rb: requests run in pooled fibers on one thread per worker,
# and whenever one waits, others run. NEVERBLOCK_FIBERS sets the number of fibers (256). To go back,
# delete the line. Do not combine it with `fiber_per_request`, which resumes a waiting fiber as if
# it had ended.
Puma::Plugin.create do
  # Not in a method `config`: if a plugin has one, Puma 5 to 8 drop the first setting from
  # config/puma.rb (DSL#_offer_plugins). Puma reads this file when it reads the plugin line.
  NB::Puma.take_over

  def start(launcher)
    launcher.log_writer.log("* NeverBlock: #{NB::Puma.fibers} fibers instead of threads")
  end
end
