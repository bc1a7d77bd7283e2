# frozen_string_literal: true

require "etc"
require "fileutils"
require "open3"
require "tmpdir"

module Bench
  module Workloads
    # PostgreSQL on a free port, with its data in a folder that later cells find again. The
    # machine's own server, if there is one, has no part in it.
    class Postgresql
      SETTINGS = { fsync: "off", max_connections: 300, listen_addresses: "127.0.0.1",
                   unix_socket_directories: "." }.freeze
      private_constant :SETTINGS

      # @return [Integer]
      attr_reader :port

      def initialize
        @user = Process.uid.zero? ? "postgres" : Etc.getlogin || "postgres"
        @folder = File.join(Dir.tmpdir, "nb-bench-postgresql-#{Process.uid}")
        @port = TCPServer.open("127.0.0.1", 0) { |server| server.local_address.ip_port }
      end

      # @return [String]
      attr_reader :user

      # @return [self]
      def start
        initdb unless File.exist?(File.join(@folder, "PG_VERSION"))
        control("stop", "-m", "immediate") if File.exist?(File.join(@folder, "postmaster.pid"))
        settings = SETTINGS.map { |name, value| "-c #{name}=#{value}" }.join(" ")
        control("start", "-w", "-l", "log.txt", "-o", "-p #{@port} #{settings}")
        self
      end

      # @return [void]
      def stop = control("stop", "-m", "fast")

      private

      def initdb
        FileUtils.mkdir_p(@folder)
        FileUtils.chown(@user, nil, @folder) if Process.uid.zero?
        run("initdb", "-D", @folder, "-A", "trust", "-U", @user, "--no-sync")
      end

      def control(*arguments) = run("pg_ctl", "-D", @folder, *arguments)

      # PostgreSQL refuses to run as root.
      def run(program, *arguments)
        path = Dir["/usr/lib/postgresql/*/bin/#{program}"].max || program
        command = [path, *arguments]
        command = ["setpriv", "--reuid", @user, "--clear-groups", *command] if Process.uid.zero?
        output = File.join(Dir.tmpdir, "nb-bench-#{program}-#{Process.uid}.log")
        status = system(*command, chdir: File.exist?(@folder) ? @folder : "/", in: File::NULL,
                                  out: output, err: %i[child out], exception: false)
        raise "#{command.join(" ")}: #{File.read(output).lines.last}" unless status
      end
    end
  end
end
