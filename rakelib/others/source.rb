# frozen_string_literal: true

require "fileutils"
require "open3"
require "rbconfig"

module Others
  # Fetches sources into tmp/others: Debian's source packages, from the mirror that apt already uses
  # on this machine, without a change to the machine's own lists; or a tag of a repository.
  class Source
    ROOT = File.expand_path("tmp/others")
    KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"
    SUITES = %w[bookworm trixie unstable experimental].freeze

    # @param source [String] a package, a repository as `owner/name`, or a gem as `gem:name`
    # @return [String] the folder with the unpacked source; fetched only once
    def fetch(source, version)
      folder = "#{ROOT}/#{source.tr(":/", "-")}-#{version.tr(":~+", "-")}"
      return folder if File.exist?("#{folder}/.complete")

      FileUtils.rm_rf(folder)
      FileUtils.mkdir_p(folder)
      case source
      when /\Agem:/ then unpack(source.delete_prefix("gem:"), version, folder)
      when /\// then clone(source, version, folder)
      else download(source, version, folder)
      end
      FileUtils.touch("#{folder}/.complete")
      folder
    end

    private

    def clone(repository, tag, folder)
      system("git", "-c", "advice.detachedHead=false", "clone", "--quiet", "--depth=1",
             "--branch", tag, "https://github.com/#{repository}", folder, exception: true)
    end

    # What the gem brings, which may be all that its tests are published in.
    def unpack(gem, version, folder)
      FileUtils.rmdir(folder)
      system(RbConfig.ruby, "-S", "gem", "unpack", gem, "--version", version, "--quiet",
             "--target", ROOT, exception: true)
      FileUtils.mv("#{ROOT}/#{gem}-#{version}", folder)
    end

    def download(package, version, folder)
      update
      Dir.chdir(folder) do
        apt("source", "--download-only", "#{package}=#{version}")
        archive = Dir["*.orig.tar.*"].reject { |file| file.end_with?(".asc") }.first
        system("tar", "xf", archive, "--strip-components=1", exception: true)
        FileUtils.rm_f(Dir["#{package}_*"])
      end
    end

    def update
      @update ||= begin
        FileUtils.mkdir_p("#{ROOT}/lists/partial")
        lines = SUITES.map { |suite| "deb-src [signed-by=#{KEYS}] #{mirror} #{suite} main\n" }
        File.write("#{ROOT}/sources.list", lines.join)
        apt("update")
        true
      end
    end

    # Of the machine's own configuration.
    def mirror
      found, = Open3.capture2("apt-get", "indextargets", "--format", "$(REPO_URI)",
                              "Created-By: Packages")
      found.lines(chomp: true).grep(%r{/debian/?\z}).first or
        abort "rake others: apt knows no Debian mirror: add one to /etc/apt/sources.list.d"
    rescue Errno::ENOENT
      abort "rake others: needs apt-get, which brings the sources"
    end

    def apt(*words)
      options = ["Dir::Etc::SourceList=#{ROOT}/sources.list", "Dir::Etc::SourceParts=/dev/null",
                 "Dir::State::Lists=#{ROOT}/lists"]
      system("apt-get", "-qq", *options.flat_map { |option| ["-o", option] }, *words) or
        abort "rake others: apt-get #{words.join(" ")} failed (see above)"
    end
  end
end
