# frozen_string_literal: true

require_relative "registry"

# ActiveRecord without Rails keeps its state per thread, so fibers would share a connection. The
# cure is in the room of Rails; in a Rails application, the railtie applies it. A program may have
# loaded Rails without an application, as gems with a railtie do; that is known when a loop starts.
NB::Drivers.register("active_record", constant: "ActiveRecord::Locking",
                                      version: "ActiveRecord::VERSION::STRING",
                                      versions: ">= 7.2") do |driver|
  rails = NB::Drivers::Driver.find("Rails::Railtie")
  NB::Rails::Alone.install(driver) unless rails
  NB::Scheduler.before_open { NB::Rails::Alone.install_without_application(driver) } if rails
end
