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
  def config(_dsl)
    # Puma::Server names the constant without a scope: ours, inside the class, is found first.
    ::Puma::Server.const_set(:ThreadPool, NB::Puma::FiberPool) unless
      ::Puma::Server.const_defined?(:ThreadPool, false)
  end

  def start(launcher)
    fibers = NB::Server::Config.puma_fibers
    launcher.log_writer.log("* NeverBlock: #{fibers} fibers instead of threads")
  end
end
