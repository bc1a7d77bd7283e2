# frozen_string_literal: true

require "etc"
require "fileutils"
require "tmpdir"
require_relative "../../frame/listening"

module Bench
  module Workloads
    # PostgreSQL on a free port, with its data in a folder that later cells find again. The
    # machine's own server, if there is one, has no part in it.
    class Postgresql
      SETTINGS = { fsync: "off", max_connections: 300, listen_addresses: "127.0.0.1",
                   unix_socket_directories: "." }.freeze
      # Seconds until it must answer.
      PATIENCE = 30
      private_constant :SETTINGS, :PATIENCE

      # @return [Integer]
      attr_reader :port

      def initialize
        @user = Process.uid.zero? ? "postgres" : Etc.getlogin || "postgres"
        @folder = claim
        @port = Listening.free_port
      end

      # @return [String]
      attr_reader :user

      # @return [self]
      def start
        initdb unless File.exist?(File.join(@folder, "PG_VERSION"))
        FileUtils.rm_f(File.join(@folder, "postmaster.pid"))
        settings = SETTINGS.flat_map { |name, value| ["-c", "#{name}=#{value}"] }
        @pid = Process.spawn(*as_user("postgres", "-D", @folder, "-p", port.to_s, *settings),
                             in: File::NULL, out: log, err: %i[child out], chdir: @folder)
        wait
        self
      end

      # @return [void]
      def stop
        Process.kill(:INT, @pid) # "fast"
        Process.wait(@pid)
        @lock.close
      rescue Errno::ESRCH, Errno::ECHILD
        nil
      end

      private

      # The first folder that no other cell uses at this moment.
      def claim
        (0..).each do |number|
          folder = File.join(Dir.tmpdir, "nb-bench-postgresql-#{Process.uid}-#{number}")
          @lock = File.open("#{folder}.lock", "w")
          return folder if @lock.flock(File::LOCK_EX | File::LOCK_NB)
        end
      end

      def log = "#{@folder}.log"

      def wait
        ready = as_user("pg_isready", "-q", "-h", "127.0.0.1", "-p", port.to_s)
        Listening.wait(@pid, PATIENCE, pause: 0.05) { system(*ready) }
      rescue RuntimeError => error
        raise "PostgreSQL #{error.message}: #{File.read(log)}"
      end

      def initdb
        FileUtils.mkdir_p(@folder)
        FileUtils.chown(@user, nil, @folder) if Process.uid.zero?
        command = as_user("initdb", "-D", @folder, "-A", "trust", "-U", @user, "--no-sync")
        system(*command, chdir: @folder, in: File::NULL, out: log, err: %i[child out]) ||
          raise("#{command.join(" ")}: #{File.read(log)}")
      end

      # It refuses to run as root. Ends with the cell, however that ends.
      def as_user(program, *arguments)
        path = Dir["/usr/lib/postgresql/*/bin/#{program}"].max || program
        user = Process.uid.zero? ? ["--reuid", @user, "--clear-groups"] : []
        ["setpriv", "--pdeathsig", "INT", *user, path, *arguments]
      end
    end
  end
end
