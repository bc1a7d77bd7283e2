# frozen_string_literal: true

require "fileutils"
require "open3"
$LOAD_PATH.unshift(File.expand_path("../../test", __dir__))
require "support/databases"

module Apps
  # An application's database: a server of its own, filled from a dump, that ends with the command.
  class Store
    attr_reader :place

    # @param application [Application]
    # @param folder [String] where its dump is kept
    def initialize(application, folder)
      @kind = application.database
      @name = "app_#{application.name}"
      @dump = "#{folder}/#{@kind}.dump"
      @place = Databases.public_send(@kind)
    end

    # @return [Hash{String => String}] for database.yml
    def environment
      { "APP_DATABASE" => @name, "APP_PORT" => @place.port.to_s }
    end

    def kept? = File.exist?(@dump)

    # Makes a new, empty database.
    def create
      if @kind == :postgresql
        run(*postgresql("dropdb"), "--if-exists", "--force", @name)
        run(*postgresql("createdb"), @name)
      else
        query("DROP DATABASE IF EXISTS #{@name}; CREATE DATABASE #{@name} CHARACTER SET utf8mb4",
              nil)
      end
    end

    # Dumps its content.
    def keep
      command = @kind == :postgresql ? [*postgresql("pg_dump"), "-Fc", @name] : mariadb_dump
      run(*command, out: "#{@dump}.new")
      File.rename("#{@dump}.new", @dump)
    end

    # Restores the dump.
    def restore
      create
      if @kind == :postgresql
        run(*postgresql("pg_restore"), "--dbname=#{@name}", @dump)
      else
        run(*mariadb("mariadb"), @name, input: @dump)
      end
    end

    # @return [Array<Array<String>>] the rows
    def query(sql, database = @name)
      words = if @kind == :postgresql
        [*postgresql("psql"), "-AtqF", "\t", "-c", sql, database]
      else
        [*mariadb("mariadb"), "--batch", "--skip-column-names", "-e", sql, *database]
      end
      run(*words).lines(chomp: true).map { |line| line.split("\t") }
    end

    private

    def postgresql(program)
      path = Dir["/usr/lib/postgresql/*/bin/#{program}"].max || program
      [path, "-h", @place.host, "-p", @place.port.to_s, "-U", @place.user]
    end

    def mariadb(program)
      [program, "--no-defaults", "-h", @place.host, "-P", @place.port.to_s, "-u", @place.user,
       "-p#{@place.password}"]
    end

    def mariadb_dump = [*mariadb("mariadb-dump"), "--single-transaction", @name]

    def run(*command, out: nil, input: File::NULL)
      options = { in: input, err: %i[child out] }
      environment = { "PGPASSWORD" => @place.password }
      return capture(environment, command, options) unless out

      system(environment, *command, in: input, out: out, exception: true)
    end

    def capture(environment, command, options)
      reader, writer = IO.pipe
      pid = Process.spawn(environment, *command, **options, out: writer)
      writer.close
      output = reader.read
      _, status = Process.wait2(pid)
      status.success? ? output : raise("#{File.basename(command.first)} failed:\n#{output}")
    end
  end
end
