# frozen_string_literal: true

require "fileutils"
require "yaml"
require_relative "../../test/support/databases"

module Others
  # What a suite finds around it: real servers of our own tests, and the settings that lead there.
  class Surroundings
    BIN = File.expand_path("tmp/others/bin")

    # @param server [Symbol, nil] :mariadb, :memcached, :postgresql
    # @param folder [String] of the unpacked source
    def initialize(server, folder)
      @server = server
      @folder = folder
    end

    # @return [Hash] for the process that runs the tests
    def environment = @server ? send(@server) : {}

    # Ends what was started.
    def self.clear = Servers.stop_all

    private

    # Its tests start memcached themselves, which wants to be told when root shall run it.
    def memcached
      FileUtils.mkdir_p(BIN)
      user = "-u root" if Process.uid.zero?
      File.write("#{BIN}/memcached", <<~SH, perm: 0o755)
        #!/bin/sh
        exec #{Databases.program("memcached")} #{user} "$@"
      SH
      { "PATH" => "#{BIN}:#{ENV.fetch("PATH")}" }
    end

    # mysql2 reads a file, and some of its tests name the database `test`.
    def mariadb
      place = Databases.mariadb
      Databases.run("mariadb", "--no-defaults", "--host=#{place.host}", "--port=#{place.port}",
                    "--user=#{place.user}", "--password=#{place.password}",
                    input: "CREATE DATABASE IF NOT EXISTS test")
      person = place.options.merge(database: "test").transform_keys(&:to_s)
      settings = { "root" => person, "user" => person.dup } # YAML would write the same one once
      File.write("#{@folder}/spec/configuration.yml", YAML.dump(settings))
      {}
    end

    def postgresql = { "SEQUEL_INTEGRATION_URL" => Databases.postgresql.url }
  end
end
