# frozen_string_literal: true

require "puma"
require "puma/plugin"
require "puma/server"
require "neverblock"
require "neverblock/server/config"
require "neverblock/puma/fiber_pool"

# `plugin :neverblock` in config/puma.rb: requests run in pooled fibers on one thread per worker,
# where every wait lets other requests go on. NEVERBLOCK_FIBERS sets how many (256). To go back,
# delete the line. Do not set `fiber_per_request` with it: it resumes a fiber that waits as if it
# had ended.
Puma::Plugin.create do
  # Here and not in a method `config`: for a plugin that has one, Puma 5 to 8 take the first setting
  # out of config/puma.rb (DSL#_offer_plugins). Puma reads this file when it reads that line.
  NB::Puma.take_over

  def start(launcher)
    launcher.log_writer.log("* NeverBlock: #{NB::Server::Config.puma_fibers} fibers instead of " \
                            "threads")
  end
end
