# frozen_string_literal: true

require "etc"

# Builds the extension beside the sources, in tmp/, once per Ruby, so that several Rubies can use
# one checkout: lib/neverblock/3.1/neverblock.so, lib/neverblock/3.4/neverblock.so.
api = RbConfig::CONFIG.values_at("MAJOR", "MINOR").join(".")
kind = "-chaos" if ENV["NB_CHAOS"] # beside the usual one, as are its objects
kind = "-asan" if ENV["NB_SANITIZE"]
kind = "-portable" if ENV["NB_PORTABLE"]
build = "tmp/ruby-#{api}/ext#{kind}"
built = "#{build}/neverblock.so"
installed = "lib/neverblock/#{api}#{kind}/neverblock.so"
headers = FileList["ext/neverblock/**/*.h"]
sources = FileList["ext/neverblock/**/*.c"]

# The contents of the Makefile. It is made again, and everything with it, when a source is added or
# removed, or when extconf.rb gets other options.
file "#{build}/wish.txt" do |task|
  wish = [*ENV.slice("NB_DEV").sort, *sources.sort, *headers.sort].join("\n")
  mkdir_p build, verbose: false
  File.write(task.name, wish) unless File.exist?(task.name) && File.read(task.name) == wish
end
Rake::Task["#{build}/wish.txt"].define_singleton_method(:needed?) { true }

file "#{build}/Makefile" => ["#{build}/wish.txt", "ext/neverblock/extconf.rb"] do
  rm_f FileList["#{build}/*.o"], verbose: false
  ruby File.expand_path("ext/neverblock/extconf.rb"), chdir: build, out: File::NULL, verbose: false
end

file built => ["#{build}/Makefile", *sources, *headers] do
  puts "Compiling for Ruby #{RUBY_VERSION}"
  sh "make", "--silent", "-j#{Etc.nprocessors}", chdir: build, out: File::NULL, verbose: false
  touch built, verbose: false
end

file installed => built do
  mkdir_p File.dirname(installed), verbose: false
  # Writes a new file instead of overwriting the old one, which a process may have mapped.
  cp built, "#{installed}.new", verbose: false
  mv "#{installed}.new", installed, verbose: false
end

desc "Compile the extension for this Ruby (NB_DEV=1: warnings are errors)"
task compile: installed
