# frozen_string_literal: true

require_relative "../support/transparency"
require "net/ssh"

# net-ssh. Its key exchange computes for tens of milliseconds, in Ruby.
class NetSSHTest < Transparency
  library "net-ssh", group: "Mail, SSH, messages", gems: %w[net-ssh],
          server: -> { NetSSHTest.sshd },
          against: -> { `/usr/sbin/sshd -V 2>&1`[/OpenSSH_[\w.]+/].tr("_", " ") }

  def self.sshd
    Servers.fetch("sshd") do |port, folder|
      FileUtils.mkdir_p("/run/sshd")
      %w[host user].each { |name| keygen("#{folder}/#{name}") }
      FileUtils.chmod(0o755, folder)
      ["/usr/sbin/sshd", "-D", "-e", "-f", File::NULL, "-p", port.to_s, "-h", "#{folder}/host",
       *options(folder).flat_map { |name, value| ["-o", "#{name}=#{value}"] }]
    end
  end

  def self.keygen(file)
    system("ssh-keygen", "-q", "-t", "rsa", "-m", "PEM", "-N", "", "-f", file, exception: true)
  end

  def self.options(folder)
    { ListenAddress: "127.0.0.1", AuthorizedKeysFile: "#{folder}/user.pub", StrictModes: "no",
      PermitRootLogin: "yes", UsePAM: "no", MaxStartups: 100, PidFile: "#{folder}/pid",
      SetEnv: "HOME=#{folder}" } # the shell reads no files of this machine's user
  end

  # A command as such would make the server start a shell: that takes it longer than all else.
  waits "a channel on an open connection" do
    sessions = together(10) { connect(port: Proxies.late(server.port)) }
    assert_equal [true], measure(count: 10) { |i| open_channel(sessions[i]) }.uniq
  ensure
    sessions&.each(&:shutdown!)
  end

  def test_ten_commands_at_once
    NB.run do
      sessions = together(10) { connect }
      outputs = together(10) { |i| sessions[i].exec!("echo #{i}") }
      assert_equal Array.new(10) { |i| "#{i}\n" }, outputs
      together(10) { |i| sessions[i].close }
    end
  end

  fails "refused" do
    connect(port: Proxies.nobody)
  end

  fails "unknown host" do
    connect(host: "unknown.invalid")
  end

  # Beyond the greeting and the keys, where the client only reads.
  fails "reset in mid-result" do
    connect(port: Proxies.cut(server.port, after: 20_000)).exec!("head -c 50000 /dev/zero")
  end

  fails "wrong key" do
    key = "#{server.folder}/wrong"
    self.class.keygen(key) unless File.exist?(key)
    connect(keys: [key])
  end

  private

  def open_channel(session)
    opened = false
    session.open_channel { opened = true }
    session.loop { !opened }
    opened
  end

  def connect(host: "127.0.0.1", port: server.port, keys: ["#{server.folder}/user"])
    Net::SSH.start(host, Etc.getpwuid.name, port: port, keys: keys, keys_only: true, config: false,
                   non_interactive: true, verify_host_key: :never, timeout: 10)
  end
end
