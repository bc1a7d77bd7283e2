# frozen_string_literal: true

require_relative "rubies"

# Beside the newest, for test/server/lint_test.rb; a Gemfile can name one version only.
RACKS = ["~> 2.2.0", "~> 3.0.0", "~> 3.1.0"].freeze

desc "Install the gems for tests and checks into tmp/, for every Ruby, and compile for it"
task :setup do
  Rubies.all.each do |ruby|
    ruby.write_gemfile
    env = ruby.bundle_environment
    unless system(env, *ruby.bundle, "check", out: File::NULL, err: File::NULL)
      puts "Ruby #{ruby.version}: installing gems into #{ruby.folder}"
      sh env, *ruby.bundle, "install", "--quiet", "--jobs", "4", "--retry", "3", verbose: false
    end
    RACKS.each do |version|
      sh ruby.environment, ruby.path, "-S", "gem", "install", "rack", "--version", version,
         "--bindir", "#{ruby.gems}/rack-bin", # 2.2 has a rackup, too
         "--conservative", "--no-document", "--silent", verbose: false
    end
    sh ruby.environment, *ruby.rake, "compile", "--silent", verbose: false
  end
end
