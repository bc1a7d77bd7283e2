# frozen_string_literal: true

require "fileutils"
require "net/http"
require "open3"
require "rbconfig"
require "rubygems/package"
require "socket"

# Builds the gem, checks its contents, installs it where nothing else is, and uses it there as a
# stranger would. The programs cannot reach this checkout: their environment is empty, and so are
# their folders for gems and work.
class Release
  HOME = File.expand_path("../tmp/release", __dir__)
  GEM = File.join(HOME, "neverblock.gem")
  GEMS = File.join(HOME, "gems")
  # The files of the repository that users need.
  SHIPPED = %r{\A(?:lib/.+\.rb|ext/.+\.(?:c|h|rb)|sig/.+|docs/.+\.md|exe/nb|LICENSE|
                   (?:README|CHANGELOG|SECURITY)\.md)\z}x.freeze

  # @raise [RuntimeError] with one sentence about the first thing that is wrong
  def check
    FileUtils.rm_rf(HOME)
    FileUtils.mkdir_p([GEMS, work])
    %i[build compare_files install ask_version run_readme serve].each do |step|
      puts format("%-9s %s", step.to_s.sub("_", " "), send(step))
      $stdout.flush
    end
  end

  private

  def work = File.join(HOME, "work")

  def build
    run("gem", "build", "neverblock.gemspec", "-o", GEM, folder: Dir.pwd)
    "#{File.size(GEM) / 1024} KB"
  end

  def compare_files
    inside = Gem::Package.new(GEM).contents
    wanted = `git ls-files`.split("\n").grep(SHIPPED)
    unknown = inside - wanted
    raise "the gem has files that it does not need: #{unknown.join(", ")}" if unknown.any?

    missing = wanted - inside
    raise "the gem lacks #{missing.join(", ")}" if missing.any?

    "#{inside.size} files"
  end

  def install
    run("gem", "install", "--local", "--no-document", "--install-dir", GEMS, GEM)
    others = Dir.children(File.join(GEMS, "gems")) - ["neverblock-#{version}"]
    raise "the gem needs others: #{others.join(", ")}" if others.any?

    "into an empty folder, with #{RbConfig.ruby}"
  end

  def ask_version
    said = nb("--version").strip
    raise "nb --version says #{said}, the gem is #{version}" unless said == version

    said
  end

  # Compares the first example's output, except for its times.
  def run_readme
    code = File.read("README.md")[/^```ruby\n(.*?)^```/m, 1]
    wanted = code.scan(/^# => (.*\n)/).join
    said = run(RbConfig.ruby, "-e", code)
    return said.strip if rough(said) == rough(wanted)

    raise "README.md promises #{wanted.inspect}, and got #{said.inspect}"
  end

  def rough(text) = text.gsub(/\d+\.\d+ s/, "n s")

  # config.ru needs Rack, whichever version the application has: here that of the tests.
  def serve
    rack = Dir["tmp/ruby-#{RUBY_VERSION[/\d+\.\d+/]}/gems/ruby/*/cache/rack-[0-9]*.gem"].max
    raise "there is no Rack for config.ru: run bin/setup" unless rack

    run("gem", "install", "--local", "--no-document", "--install-dir", GEMS, File.expand_path(rack))
    File.write(File.join(work, "config.ru"), 'run ->(_env) { [200, {}, ["hello"]] }')
    port = TCPServer.open("127.0.0.1", 0) { |server| server.addr[1] }
    pid = spawn(*command("nb", "serve", "--quiet", "--port", port.to_s), **options(work), out: File::NULL)
    said = answer_of(URI("http://127.0.0.1:#{port}/"))
    said == "hello" ? "nb serve says hello" : raise("nb serve answers #{said.inspect}")
  ensure
    Process.kill(:TERM, pid) && Process.wait(pid) if pid
  end

  def answer_of(uri, until_s: now + 60)
    Net::HTTP.get(uri)
  rescue Errno::ECONNREFUSED
    raise "nb serve does not listen after a minute" if now > until_s

    sleep 0.1
    retry
  end

  def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

  def version = Gem::Specification.load("neverblock.gemspec").version.to_s

  def nb(*arguments) = run("nb", *arguments)

  # @return [String] what it printed
  def run(*arguments, folder: work)
    output, status = Open3.capture2e(*command(*arguments), **options(folder))
    status.success? ? output : raise("#{arguments.first(2).join(" ")} fails: #{output}")
  end

  def command(*arguments)
    paths = [File.join(GEMS, "bin"), RbConfig::CONFIG["bindir"], "/usr/bin", "/bin"]
    [{ "PATH" => paths.join(":"), "HOME" => work, "GEM_HOME" => GEMS, "GEM_PATH" => GEMS,
       "LANG" => "C.UTF-8" }, *arguments]
  end

  def options(folder) = { unsetenv_others: true, chdir: folder }
end
