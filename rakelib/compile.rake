# frozen_string_literal: true

require "etc"

# Builds the extension beside the sources, in tmp/, once per Ruby, so that several Rubies can use
# one checkout: lib/neverblock/3.1/neverblock.so, lib/neverblock/3.4/neverblock.so.
api = RbConfig::CONFIG.values_at("MAJOR", "MINOR").join(".")
sanitized = ENV["NB_SANITIZE"] ? "-sanitized" : ""
build = "tmp/ruby-#{api}/ext#{sanitized}"
built = "#{build}/neverblock.so"
installed = "lib/neverblock/#{api}/neverblock.so"
headers = FileList["ext/neverblock/**/*.h"]
sources = FileList["ext/neverblock/**/*.c"]

directory build

# The list of sources is in the Makefile: it is made anew when a file comes or goes.
file "#{build}/sources.txt" => build do |task|
  names = sources.sort.join("\n")
  File.write(task.name, names) unless File.exist?(task.name) && File.read(task.name) == names
end
Rake::Task["#{build}/sources.txt"].define_singleton_method(:needed?) { true }

file "#{build}/Makefile" => ["#{build}/sources.txt", "ext/neverblock/extconf.rb"] do
  ruby File.expand_path("ext/neverblock/extconf.rb"), chdir: build, out: File::NULL
end

file built => ["#{build}/Makefile", *sources, *headers] do
  # mkmf's Makefile does not know which object includes which header of ours.
  newest = headers.map { |path| File.mtime(path) }.max
  rm_f FileList["#{build}/*.o"] if File.exist?(built) && newest > File.mtime(built)
  sh "make", "--silent", "-j#{Etc.nprocessors}", chdir: build
  touch built, verbose: false
end

file installed => built do
  mkdir_p File.dirname(installed), verbose: false
  # A new file, not the old one overwritten: a process may have that mapped.
  cp built, "#{installed}.new", verbose: false
  mv "#{installed}.new", installed, verbose: false
end

desc "Compile the extension for this Ruby (NB_DEV=1: warnings are errors)"
task compile: installed
