# frozen_string_literal: true

require "etc"
require "open3"
require "shellwords"
require_relative "certificates"
require_relative "missing"
require_relative "servers"

# The databases and caches that drivers are proved against: the machine's own PostgreSQL, MariaDB,
# Redis and memcached, each on a free port and with a folder of its own, started by the first call.
# They speak TLS beside plain text where they can, with the certificate of Certificates.
#
#   PG.connect(Databases.postgresql.url)
#   Mysql2::Client.new(**Databases.mariadb.options)
module Databases
  # Where one is, and who may come in.
  Place = Struct.new(:server, :scheme, :user, :password, :database) do
    def host = "127.0.0.1"
    def port = server.port
    def folder = server.folder

    def url
      person = user && "#{[user, password].compact.join(":")}@"
      "#{scheme}://#{person}#{host}:#{port}/#{database}"
    end

    # @return [Hash] the words that mysql2, trilogy and Sequel have for it
    def options = { host: host, port: port, username: user, password: password, database: database }

    # Ends it, runs the block, and starts it anew with the same data. (At TERM, PostgreSQL waits
    # until its clients have gone.)
    def restart(signal: scheme == "postgresql" ? :INT : :TERM, &block)
      Servers.restart(server, signal: signal, &block)
    end
  end

  module_function

  # User `nb`, database `nb`.
  # @param connections [Integer] as many as a server that just starts allows
  # @return [Place]
  def postgresql(connections: 300)
    new = false
    # At QUIT it ends before its clients, and leaves no shared memory.
    server = Servers.fetch("postgresql", ending: :QUIT) do |port, folder|
      new = true
      data = copy("postgresql", folder, "postgres") { |place| initdb(place) }
      tls = certificate(data, "postgres")
      as("postgres", postgresql_program("postgres"), "-D", data, "-p", port.to_s, "-k", "",
         *settings(listen_addresses: "127.0.0.1", max_connections: connections,
                   fsync: "off", full_page_writes: "off", ssl: "on",
                   ssl_cert_file: tls[:certificate], ssl_key_file: tls[:key]))
    end
    wait_for_postgresql(server.port) if new
    Place.new(server, "postgresql", "nb", "secret", "nb")
  end

  # User `nb`, database `nb`.
  # @param connections [Integer] as many as a server that just starts allows
  # @return [Place]
  def mariadb(connections: 300)
    # TERM may take it half a minute.
    server = Servers.fetch("mariadb", ending: :KILL) do |port, folder|
      data = copy("mariadb", folder, "mysql") { |place| install_mariadb(place) }
      tls = certificate(data, "mysql")
      as("mysql", "mariadbd", "--no-defaults", "--datadir=#{data}", "--port=#{port}",
         "--bind-address=127.0.0.1", "--socket=#{data}/socket", "--pid-file=#{data}/pid",
         "--max-connections=#{connections}", "--innodb-flush-log-at-trx-commit=2",
         "--innodb-buffer-pool-size=64M", "--max-allowed-packet=64M", "--skip-name-resolve",
         "--ssl-cert=#{tls[:certificate]}", "--ssl-key=#{tls[:key]}")
    end
    Place.new(server, "mysql2", "nb", "secret", "nb")
  end

  # A blocking command's time is up when Redis looks: so often per second.
  REDIS = %w[redis-server --hz 100].freeze
  private_constant :REDIS

  # Saves its data when it ends, and not before (as long as nobody writes 10^9 times in a day).
  # @return [Place]
  def redis
    server = Servers.fetch("redis") do |port, folder|
      REDIS + %W[--port #{port} --bind 127.0.0.1 --dir #{folder} --save #{"86400 1000000000"}]
    end
    Place.new(server, "redis", nil, nil, "0")
  end

  # A cluster of one: it has all slots.
  # @return [Place]
  def redis_cluster
    server = Servers.fetch("redis-cluster") do |port, folder|
      REDIS + %W[--port #{port} --cluster-port #{Ports.free} --bind 127.0.0.1 --dir #{folder}
                 --save #{""} --cluster-enabled yes --cluster-announce-ip 127.0.0.1]
    end
    ask = ->(*words) { Open3.capture2e("redis-cli", "-p", server.port.to_s, *words).first }
    ask["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]
    Thread.pass until ask["CLUSTER", "INFO"].include?("cluster_state:ok")
    Place.new(server, "redis", nil, nil, "0")
  end

  # Redis with nothing but TLS; its own certificate is certificate.pem in its folder.
  # @return [Place]
  def redis_tls
    server = Servers.fetch("redis-tls") do |port, folder|
      tls = certificate(folder, Etc.getpwuid.name)
      REDIS + %W[--port 0 --tls-port #{port} --bind 127.0.0.1 --dir #{folder} --save #{""}
                 --tls-auth-clients no --tls-cert-file #{tls[:certificate]}
                 --tls-key-file #{tls[:key]}]
    end
    Place.new(server, "rediss", nil, nil, "0")
  end

  # @return [Place]
  def memcached
    server = Servers.fetch("memcached") do |port, _|
      %W[memcached -l 127.0.0.1 -p #{port} -c 4096] + (Process.uid.zero? ? %w[-u nobody] : [])
    end
    Place.new(server, "memcached")
  end

  # @return [Boolean] whether the machine has it, such as Databases.there?(:mariadb)
  def there?(name)
    return !postgresql_program("initdb").nil? if name == :postgresql

    names = { mariadb: "mariadbd", redis: "redis-server", memcached: "memcached" }
    !program(names.fetch(name)).nil?
  end

  # It listens a moment before it lets anybody in.
  def wait_for_postgresql(port)
    program = postgresql_program("pg_isready")
    2400.times do
      return if system(program, "-q", "-h", "127.0.0.1", "-p", port.to_s)

      sleep 0.05
    end
    raise "PostgreSQL on port #{port} lets nobody in"
  end

  # --- how each is made -----------------------------------------------------------------------

  # Making a database takes seconds, copying an empty one does not: it is made once, in tmp/.
  def copy(name, folder, user)
    template = File.expand_path("../../tmp/databases/#{name}", __dir__)
    FileUtils.mkdir_p(File.dirname(template))
    File.open("#{template}.lock", "w") do |lock|
      lock.flock(File::LOCK_EX)
      make(folder, template, user) { |place| yield place } unless File.directory?(template)
    end
    File.chmod(0o755, folder)
    run("cp", "-a", template, "#{folder}/data")
    "#{folder}/data"
  end

  # In the folder of the server, where its user may go, before it becomes the template.
  def make(folder, template, user)
    File.chmod(0o755, folder)
    place = "#{folder}/new"
    Dir.mkdir(place, 0o700)
    FileUtils.chown(user, nil, place) if Process.uid.zero?
    yield place
    run("cp", "-a", place, "#{template}.new")
    File.rename("#{template}.new", template)
    FileUtils.rm_rf(place)
  end

  def initdb(place)
    run(*as("postgres", postgresql_program("initdb"), "-D", place, "-U", "postgres", "-A", "trust",
            "--no-sync", "--encoding=UTF8", "--locale=C.UTF-8"))
    File.write("#{place}/pg_hba.conf",
               "host all postgres 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n")
    single = as("postgres", postgresql_program("postgres"), "--single", "-D", place, "postgres")
    ["CREATE ROLE nb LOGIN SUPERUSER PASSWORD 'secret'", "CREATE DATABASE nb OWNER nb"]
      .each { |sql| run(*single, input: sql) }
  end

  def install_mariadb(place)
    run(*as("mysql", "mariadb-install-db", "--no-defaults", "--datadir=#{place}", "--skip-test-db",
            "--auth-root-authentication-method=normal", "--skip-name-resolve"))
    bootstrap = as("mysql", "mariadbd", "--no-defaults", "--datadir=#{place}", "--bootstrap")
    run(*bootstrap, input: <<~SQL)
      FLUSH PRIVILEGES;
      CREATE DATABASE nb;
      CREATE USER nb@'%' IDENTIFIED BY 'secret';
      GRANT ALL ON *.* TO nb@'%' WITH GRANT OPTION;
    SQL
  end

  # @return [Hash] files that only the server's user can read, as both databases demand
  def certificate(data, user)
    pair = { certificate: Certificates.certificate, key: Certificates::KEY }
    pair.transform_values(&:to_pem).to_h do |name, text|
      path = "#{data}/#{name}.pem"
      File.write(path, text, perm: 0o600)
      FileUtils.chown(user, nil, path) if Process.uid.zero?
      [name, path]
    end
  end

  def settings(**values) = values.flat_map { |name, value| ["-c", "#{name}=#{value}"] }

  # Neither database runs as root.
  def as(user, *command)
    return command unless Process.uid.zero?

    ["setpriv", "--reuid=#{user}", "--regid=#{Etc.getpwnam(user).gid}", "--clear-groups", *command]
  end

  def postgresql_program(name)
    program(name) || Dir["/usr/lib/postgresql/*/bin/#{name}"].max
  end

  def program(name)
    ENV.fetch("PATH").split(":").push("/usr/sbin").map { |place| "#{place}/#{name}" }
      .find { |path| File.executable?(path) }
  end

  def run(*command, input: "")
    output, status = Open3.capture2e(*command, stdin_data: input)
    raise "#{command.shelljoin} failed:\n#{output}" unless status.success?
  end
end
