# frozen_string_literal: true

require_relative "lock"
require_relative "rubies"

# For test/server/lint_test.rb.
def install_racks(ruby)
  Lock.racks.each do |version|
    next if File.exist?("#{ruby.gems}/specifications/rack-#{version}.gemspec")

    # -W0: RubyGems warns about gems that come with Ruby in two versions.
    sh ruby.environment, ruby.path, "-W0", "-S", "gem", "install", "rack", "--version", version,
       "--bindir", "#{ruby.gems}/rack-bin", # 2.2 has a rackup, too
       "--conservative", "--no-document", "--silent", verbose: false
  end
end

desc "Install the gems for tests and checks into tmp/, for every Ruby, and compile for it"
task :setup do
  Rubies.all.each do |ruby|
    Lock.new(ruby).install
    install_racks(ruby)
    sh ruby.environment, *ruby.rake, "compile", "--silent", verbose: false
  end
end

namespace :locks do
  desc "Lock the newest versions of all gems that tests use, for every Ruby (in rakelib/locks/)"
  task :renew do
    Rubies.all.each { |ruby| Lock.new(ruby).renew(all: true) }
    Lock.renew_racks
  end

  desc "Lock the gems that are new in the Gemfile; all others stay at their versions"
  task :add do
    Rubies.all.each { |ruby| Lock.new(ruby).renew(all: false) }
  end
end
