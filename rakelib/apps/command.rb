# frozen_string_literal: true

require_relative "application"
require_relative "crowd"
require_relative "page"
require_relative "serving"
require_relative "store"
require_relative "trial"
require_relative "walk"
require_relative "workshop"

module Apps
  # `rake apps`, on the Ruby that runs it.
  class Command
    # @param names [Array<String>] of applications; if empty, all of them
    def initialize(names)
      all = Application.all
      unknown = names - all.map(&:name)
      known = all.map(&:name).join(", ")
      abort "rake apps: no application #{unknown.join(", ")}; there are #{known}" if unknown.any?

      @applications = names.empty? ? all : all.select { |one| names.include?(one.name) }
    end

    # @return [Boolean] whether there was no fault under NeverBlock, and doctor found no problem
    def run
      $stdout.sync = true # it takes minutes, also with a file in place of a terminal
      page = Page.new
      green = @applications.map do |application|
        trial = Trial.new(application)
        page.add(application, trial.run)
        page.write
        trial.green?
      end
      green.all?
    ensure
      Servers.stop_all
    end
  end
end
