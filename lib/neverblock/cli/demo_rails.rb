# frozen_string_literal: true

require "fileutils"
require "json"
require "rbconfig"
require_relative "demo_race"
require_relative "demo_rails_page"

module NB
  module CLI
    # `nb demo rails`: runs the shop of examples/rails under Puma with threads and under NeverBlock
    # at the same time, and asks both for the same number of pages.
    class DemoRails
      # The servers: their names for {Bench::Workloads::RailsServer} and for readers, and their
      # settings.
      SERVERS = { "puma5" => ["Puma, 5 threads", { "NEVERBLOCK" => "0" }],
                  "nb" => ["NeverBlock", {}] }.freeze
      # The gems that the shop needs.
      GEMS = %w[rails puma sqlite3].freeze
      private_constant :SERVERS, :GEMS

      # @param folder [String] where the page goes
      # @param pages [Integer] how many each server is asked for
      # @param clients [Integer] how many ask at a time
      # @scheduling never waits
      def initialize(folder:, pages: 400, clients: 100)
        @folder = folder
        @pages = pages
        @clients = clients
        @shop = File.join(::Bench::ROOT, "examples", "rails")
        load File.join(::Bench::HOME, "workloads", "rails", "servers.rb")
      end

      # @return [Integer] exit status
      # @scheduling always waits
      def run
        results = with_servers(SERVERS.keys) do |servers|
          puts "Each page of the shop asks its database and two services (80 and 120 ms).",
               "#{@clients} customers ask each server for #{@pages} pages, both at once.", ""
          race = DemoRace.new(program, clients: @clients, pages: @pages)
          race.warm_up(servers.values)
          race.run(servers.transform_keys { |kind| SERVERS.fetch(kind).first })
        end
        print(results)
        page = DemoRailsPage.new(results, pages: @pages, clients: @clients)
        puts "", "Page: #{page.write(File.join(@folder, "index.html"))}",
             "The shop itself: bin/demo rails --shop"
        results.values.sum { |result| result.fetch("errors") }.zero? ? 0 : 1
      end

      # Serves the shop with NeverBlock until Ctrl-C.
      #
      # @return [Integer] exit status
      # @scheduling always waits
      def shop
        $stdout.sync = true
        with_servers(%w[nb]) do |servers|
          puts "The shop is open: http://127.0.0.1:#{servers.fetch("nb").port}/ (Ctrl-C closes it)"
          sleep
        end
      rescue Interrupt
        0
      end

      private

      def program = ::Bench::Compiled.program("c_mix")

      def with_servers(kinds)
        use_gems
        services = ::Bench::Server.start(:delayd, ruby: ::Bench::RubyTarget.new)
        environment = environment(services)
        prepare(environment)
        servers = kinds.to_h do |kind|
          [kind, server(kind, environment.merge(SERVERS.fetch(kind).last))]
        end
        yield servers.transform_values { |server| server.tap(&:start) }
      ensure
        servers&.each_value(&:stop)
        services&.stop
      end

      def server(kind, environment)
        ::Bench::Workloads::RailsServer.new(kind, environment, home: @shop, path: "/")
      end

      def environment(services)
        FileUtils.mkdir_p(@folder)
        { "SERVICES" => "http://127.0.0.1:#{services.port}", "GEM_HOME" => Gem.dir,
          "GEM_PATH" => Gem.path.join(":"), "RAILS_ENV" => "production",
          "RUBYLIB" => File.join(::Bench::ROOT, "lib"),
          "SHOP_DATABASE" => File.join(File.expand_path(@folder), "shop.sqlite3") }
      end

      def prepare(environment)
        puts "Filling the shop …"
        ruby = [RbConfig.ruby, "bin/rails", "db:prepare"]
        system(environment, *ruby, chdir: @shop, out: File::NULL) ||
          raise(::Bench::Error, "`bin/rails db:prepare` in examples/rails failed")
      end

      # The gems of this Ruby, or those that bin/setup has put into tmp/; if there are none, runs it
      # now.
      def use_gems
        return if gems?

        api = RUBY_VERSION[/\A\d+\.\d+/]
        base = File.join(::Bench::ROOT, "tmp", "ruby-#{api}")
        Gem.use_paths(home = File.join(base, "gems", "ruby", "#{api}.0"), [home])
        return if gems?

        puts "Installing Rails and Puma into tmp/; the first time takes some minutes …"
        install(base)
        Gem.use_paths(home, [home])
        raise ::Bench::Error, "`bundle install` did not provide #{GEMS.join(", ")}" unless gems?
      end

      def gems?
        Gem.refresh
        GEMS.all? { |name| Gem::Specification.find_all_by_name(name).any? }
      end

      def install(base)
        FileUtils.mkdir_p(base)
        gemfile = File.join(base, "Gemfile.shop")
        File.write(gemfile, "eval_gemfile #{File.join(@shop, "Gemfile").dump}\n")
        environment = { "BUNDLE_GEMFILE" => gemfile, "BUNDLE_PATH" => File.join(base, "gems") }
        system(environment, RbConfig.ruby, "-S", "bundle", "install", "--quiet") ||
          raise(::Bench::Error, "`bundle install` of examples/rails/Gemfile failed")
      end

      def print(results)
        puts "", format("%-18s %10s %14s %14s %9s", "", "pages/s", "half within", "99 % within",
                        "memory")
        results.each do |name, result|
          puts format("%-18s %10.0f %11.2f s  %11.2f s  %6.0f MB", name,
                      result["answers"] / result["elapsed"], result["p50_ms"] / 1000,
                      result["p99_ms"] / 1000, result["memory_mb"])
        end
        slow, fast = results.values_at(*results.keys.first(2)).map { |one| one["elapsed"] }
        puts "", format("%.1f times as many pages, from one process and one thread.", slow / fast)
      end
    end
  end
end
