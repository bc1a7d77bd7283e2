# frozen_string_literal: true

require "rbconfig"
require "tmpdir"
require_relative "subprocess"

# Runs a script where every name is answered late: in a network of its own (a namespace) whose only
# name server is ours. The script finds DELAY and, on its standard error, a line per query.
module NameServer
  DELAY = 1.0
  # Answers type A of *.test with 127.0.0.1 after the delay, all else with "no such name".
  SERVER = <<~RUBY
    require "socket"
    socket = UDPSocket.new
    socket.do_not_reverse_lookup = true
    socket.bind("127.0.0.1", 53)
    puts "ready"
    $stdout.close
    loop do
      query, from = socket.recvfrom(512)
      Thread.new do
        $stderr.syswrite("query\\n") if ENV["NB_NAMES_TOLD"]
        sleep Float(ENV.fetch("NB_NAMES"))
        question = query[12..query.index("\\0", 12) + 4]
        known = question.include?("\\x04test\\0")
        answer = "\\xC0\\x0C\\0\\x01\\0\\x01\\0\\0\\0\\x05\\0\\x04\\x7F\\0\\0\\x01".b
        address = known && question[-4, 2] == "\\0\\x01" ? answer : ""
        head = [known ? 0x8180 : 0x8183, 1, address.empty? ? 0 : 1, 0, 0].pack("n5")
        socket.send(query[0, 2] + head + question + address, 0, from[3], from[1])
      end
    end
  RUBY
  # The last arguments are the command.
  SET_UP = <<~SH
    set -e
    directory=$1 ruby=$2
    shift 2
    ip link set lo up
    printf 'nameserver 127.0.0.1\\noptions timeout:5 attempts:1\\n' > "$directory/resolv.conf"
    printf 'hosts: files dns\\n' > "$directory/nsswitch.conf"
    mount --bind "$directory/resolv.conf" /etc/resolv.conf
    mount --bind "$directory/nsswitch.conf" /etc/nsswitch.conf
    : > "$directory/ready"
    "$ruby" --disable-gems -e "$NB_SERVER" > "$directory/ready" &
    trap "kill $! 2>/dev/null; rm -rf $directory" EXIT
    until grep -q ready "$directory/ready"; do sleep 0.02; done
    "$@"
  SH
  # Root keeps its rights over other users, as starting databases needs; anybody else gets what a
  # network takes.
  UNSHARE = %w[unshare -mn] + (Process.uid.zero? ? [] : %w[--user --map-current-user --keep-caps])

  # @return [Boolean] whether this system lets us have a network of our own
  def self.available?
    return @available if defined?(@available)

    @available = system(*UNSHARE, "ip", "link", "set", "lo", "up", err: File::NULL) || false
  end

  # @return [Subprocess::Result]
  def self.run(script, env: {}, limit: 60)
    given = { **variables(DELAY), "NB_NAMES_TOLD" => "1", **env }
    Subprocess.run(given, command(RbConfig.ruby, "-I", Subprocess::LIB, "-e", script), limit)
  end

  # Starts this very program anew where names are answered late, unless it is there already.
  # @return [Boolean] false where the system does not let us
  def self.enter(delay)
    return true if ENV["NB_NAMES"]
    return false unless available?

    words = $LOAD_PATH.first(4).flat_map { |folder| ["-I", folder] }
    words << "-r#{File.expand_path("current_test", __dir__)}" if defined?(CurrentTest)
    told = { "NB_CURRENT_TEST" => defined?(CurrentTest) ? CurrentTest::FILE : nil }
    exec({ **variables(delay), **told }, *command(RbConfig.ruby, *words, $PROGRAM_NAME, *ARGV))
  end

  def self.variables(delay) = { "NB_SERVER" => SERVER, "NB_NAMES" => delay.to_s }

  def self.command(*program)
    [*UNSHARE, "sh", "-c", SET_UP, "sh", Dir.mktmpdir("nb"), RbConfig.ruby, *program]
  end
  private_class_method :variables, :command
end
