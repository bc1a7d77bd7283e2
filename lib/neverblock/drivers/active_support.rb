# frozen_string_literal: true

require_relative "registry"

# ActiveSupport without Rails keeps CurrentAttributes, Time.zone and log tags per thread, so fibers
# would see each other's. Which of these are loaded is known when a loop starts. They stay per
# thread if ActiveRecord is to be left alone, because its connections go by the same setting.
NB::Drivers.register("active_support", features: %w[active_support active_support/all],
                                       constant: "ActiveSupport::VERSION",
                                       version: "ActiveSupport::VERSION::STRING",
                                       versions: ">= 7.2") do |driver|
  install = lambda do
    left = NB::Drivers.status.any? { |row| row.name == "active_record" && row.state == :off }
    NB::Rails::Alone.install_state(driver) unless left
  end
  NB::Scheduler.before_open(&install)
  install.call if Fiber.scheduler.is_a?(NB::Scheduler)
end
