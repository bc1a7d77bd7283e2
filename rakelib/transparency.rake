# frozen_string_literal: true

require_relative "rubies"
require_relative "transparency_page"

desc "Measure drivers and clients (all, or those of the names given) and write docs/TRANSPARENCY.md"
task :transparency do |_, arguments|
  names = arguments.extras
  files = names.empty? ? FileList["test/drivers/**/*_test.rb"] :
    names.map do |name|
      Dir["test/drivers/{,long/}#{name}_test.rb"].first ||
        abort("rake transparency: there is no test/drivers/#{name}_test.rb")
    end
  Rubies.all.each do |ruby|
    files.each do |file|
      sh({ **ruby.environment, "NB_RESULTS" => "1" }, ruby.path, "-Ilib:test", file)
    end
  end
  TransparencyPage.new.write
end
