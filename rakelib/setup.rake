# frozen_string_literal: true

require_relative "rubies"

desc "Install the gems for tests and checks into tmp/, for every Ruby, and compile for it"
task :setup do
  Rubies.all.each do |ruby|
    ruby.write_gemfile
    env = ruby.bundle_environment
    unless system(env, *ruby.bundle, "check", out: File::NULL, err: File::NULL)
      puts "Ruby #{ruby.version}: installing gems into #{ruby.folder}"
      sh env, *ruby.bundle, "install", "--quiet", "--jobs", "4", "--retry", "3", verbose: false
    end
    sh ruby.environment, *ruby.rake, "compile", "--silent", verbose: false
  end
end
