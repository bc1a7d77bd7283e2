# frozen_string_literal: true

require "fileutils"
require "rbconfig"
require_relative "../others/source"
require_relative "../rubies"

module Apps
  # Builds an application in tmp/apps, once: as its makers publish it, and a copy for each server.
  # The copy for NeverBlock has the three lines of docs/RAILS.md.
  class Workshop
    ROOT = File.expand_path("tmp/apps")
    RUBY = Rubies::Found.new(RbConfig.ruby, RUBY_VERSION)
    # Parts of the generator that are not needed here.
    LEAN = %w[--skip-bundle --skip-git --skip-test --skip-docker --skip-solid
              --skip-kamal --skip-thruster --skip-ci --skip-rubocop --skip-brakeman
              --skip-system-test --skip-dev-gems].freeze
    DATABASE = <<~YAML
      production:
        adapter: %<adapter>s
        host: 127.0.0.1
        port: <%%= ENV["APP_PORT"] %%>
        database: <%%= ENV["APP_DATABASE"] %%>
        username: nb
        password: secret
        pool: <%%= ENV.fetch("RAILS_MAX_THREADS", 5) %%>
    YAML
    # What Falcon's guide asks of Rails.
    FALCON = "Rails.application.config.active_support.isolation_level = :fiber\n"

    attr_reader :application

    def initialize(application) = @application = application

    def folder = "#{ROOT}/#{application.name}"

    # @param server [String] of Serving::SERVERS
    # @return [String] the folder of this server's copy
    def variant(server) = "#{folder}/#{server == "puma" ? "plain" : server}"

    # @return [Hash{String => String}] the environment of all commands in that folder
    def environment
      Rubies.clean.merge(
        "BUNDLE_PATH" => "#{ROOT}/gems", "BUNDLE_SILENCE_ROOT_WARNING" => "1",
        "BUNDLE_WITHOUT" => "development:test", "RAILS_ENV" => "production",
        "RACK_ENV" => "production", "SECRET_KEY_BASE" => "s" * 128, "RAILS_LOG_LEVEL" => "warn",
        "RAILS_SERVE_STATIC_FILES" => "1", "LC_ALL" => "C.UTF-8", "DISABLE_SPRING" => "1",
        "PATH" => "#{File.dirname(RbConfig.ruby)}:#{ENV.fetch("PATH")}", **@store.to_h
      )
    end

    # Builds what is not there yet, and fills the database.
    # @param store [Store]
    def prepare(store)
      @store = store.environment
      once("plain") { build }
      store.kept? ? store.restore : fill(store)
      once("neverblock") { change("neverblock") { |place| add_neverblock(place) } }
      once("falcon") { change("falcon") { |place| add_falcon(place) } }
    end

    # For Application#make: puts the source there.
    # @param source [String] a package of Debian, or a repository as `owner/name`
    # @param version [String] its version, or tag
    def unpack(source, version)
      FileUtils.cp_r("#{Others::Source.new.fetch(source, version)}/.", variant("puma"))
      FileUtils.rm_rf("#{variant("puma")}/.git")
    end

    # For Application#make: generates a new application with these gems.
    # @param rails [String] its version
    # @param gems [Hash{String => String}]
    def generate(rails, gems, *words)
      gemfile("#{folder}/Gemfile", { "rails" => rails })
      run("bundle", "install", "--quiet", in_folder: folder)
      run("bundle", "exec", "rails", "new", "plain", *words, *LEAN, in_folder: folder)
      File.open("#{variant("puma")}/Gemfile", "a") do |file|
        gems.each { |gem, version| file.puts("gem #{gem.inspect}, #{version.inspect}") }
      end
    end

    # For Application#make: has a generated application serve its assets by Sprockets, which older
    # engines need, in place of Propshaft.
    def sprockets
      edit("Gemfile") { |text| text.sub(/^gem "propshaft"$/, "") }
      edit("app/views/layouts/application.html.erb") { |text| text.sub(" :app", ' "application"') }
      write("app/assets/config/manifest.js", "//= link application.css\n")
    end

    # For Application#make: writes a file of the application.
    def write(path, text)
      FileUtils.mkdir_p(File.dirname("#{variant("puma")}/#{path}"))
      File.write("#{variant("puma")}/#{path}", text)
    end

    # For Application#make: changes a file of the application.
    # @yieldparam text [String] its content
    # @yieldreturn [String] its new content
    def edit(path)
      write(path, yield(File.read("#{variant("puma")}/#{path}")))
    end

    def run(*command, in_folder: variant("puma"))
      log = "#{folder}/build.log"
      return if system(environment, *command, chdir: in_folder, in: File::NULL, out: [log, "a"],
                                              err: %i[child out])

      raise "#{application.name}: #{command.join(" ")} failed:\n" \
            "#{File.readlines(log).last(30).join}"
    end

    private

    def build
      FileUtils.rm_rf(folder)
      FileUtils.mkdir_p(variant("puma"))
      application.make(self)
      write("config/database.yml", format(DATABASE, adapter: application.adapter))
      run("bundle", "install", "--quiet")
    end

    def fill(store)
      store.create
      application.setup.each { |line| run(*line.split) }
      File.write("#{folder}/seeds.rb", application.seeds)
      run("bundle", "exec", "rails", "runner", "#{folder}/seeds.rb")
      store.keep
    end

    # The three lines: the gem, the adapter, the number of connections.
    def add_neverblock(place)
      add_gem(place, "\"neverblock\", path: #{Dir.pwd.inspect}")
      file = "#{place}/config/database.yml"
      text = File.read(file).sub("adapter: ", "adapter: neverblock_")
      File.write(file, text.sub(/pool:.*/, "connections: 12"))
    end

    def add_falcon(place)
      add_gem(place, "\"falcon\", \"0.57.0\"")
      File.write("#{place}/config/initializers/falcon.rb", FALCON)
    end

    def add_gem(place, words) = File.write("#{place}/Gemfile", "\ngem #{words}\n", mode: "a")

    def once(step)
      marker = "#{folder}/.#{step}"
      return if File.exist?(marker)

      yield
      FileUtils.touch(marker)
    end

    def change(server)
      place = variant(server)
      FileUtils.rm_rf(place)
      FileUtils.cp_r(variant("puma"), place)
      yield place
      run("bundle", "install", "--quiet", in_folder: place)
    end

    def gemfile(path, gems)
      lines = gems.map { |gem, version| "gem #{gem.inspect}, #{version.inspect}\n" }
      File.write(path, "source Gem.sources.first.uri.to_s\n#{lines.join}")
    end
  end
end
