# frozen_string_literal: true

require_relative "registry"

# I18n before 1.15, and later versions on Ruby before 3.2, keep the locale in a thread variable: one
# request would answer in another's language. Only without Rails: there the railtie handles it.
NB::Drivers.register("i18n", constant: "I18n::RESERVED_KEYS", version: "I18n::VERSION",
                             versions: [">= 1", "< 2"]) do |driver|
  install = -> { NB::Rails::Alone.install_locale(driver) }
  NB::Scheduler.before_open(&install)
  install.call if Fiber.scheduler.is_a?(NB::Scheduler)
end
