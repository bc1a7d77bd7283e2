# frozen_string_literal: true

require "fileutils"

module Bench
  module Gate
    # The library as another commit has it: in a directory of its own, compiled once and kept.
    class Reference
      # Where they are, by commit.
      PLACE = File.join(ROOT, "tmp", "gate")

      # @return [String] the commit's hash
      attr_reader :commit
      # @return [String] what the user called it
      attr_reader :name

      # @param name [String, nil] tag, branch or hash; nil: the last release's tag
      # @param root [String] of the repository
      # @raise [Bench::Error] when there is none
      def initialize(name, root: ROOT)
        @root = root
        @name = name || tag
        @commit = git("rev-parse", "--verify", "--quiet", "--end-of-options",
                      "#{@name}^{commit}") or
          raise Error, "there is no commit #{@name.inspect} here: name a tag, a branch or a hash"
      end

      # @return [String] directory of its library
      def lib = File.join(home, "lib")

      # Unpacks and compiles what is not there yet.
      #
      # @param ruby [RubyTarget]
      # @yieldparam text [String] what is going on, for a progress line
      # @return [self]
      # @raise [Bench::Error] when it does not compile
      def build(ruby)
        unless File.exist?(home)
          yield "unpacking #{name}"
          unpack
        end
        yield "compiling #{name}"
        Reference.compile(ruby, home)
        self
      end

      # @param ruby [RubyTarget]
      # @param home [String] a source tree
      # @return [void]
      # @raise [Bench::Error] when it does not compile
      def self.compile(ruby, home)
        output, status = Command.capture(RubyTarget::CLEAN, *ruby.command, "-S", "rake", "compile",
                                         chdir: home)
        return if status.success?

        log = File.join(home, "tmp", "compile.log")
        FileUtils.mkdir_p(File.dirname(log))
        File.write(log, output)
        raise Error, "#{home} does not compile: see #{log}"
      end

      private

      def home = File.join(PLACE, commit)

      def tag
        git("describe", "--tags", "--abbrev=0", "--match", "v[0-9]*") or
          raise Error, "no release has a tag yet: name a commit to compare with, such as HEAD~1"
      end

      # @return [String, nil] nil when git fails
      def git(*words)
        output, status = Command.capture("git", "-C", @root, *words)
        output.strip if status.success?
      rescue Errno::ENOENT
        raise Error, "git is not installed: it unpacks the commit to compare with"
      end

      # Under another name until it is complete.
      def unpack
        part = "#{home}.part"
        FileUtils.rm_rf(part)
        FileUtils.mkdir_p(part)
        archive = "#{part}.tar"
        ok = git("archive", "--output", archive, commit) &&
             Command.capture("tar", "-xf", archive, "-C", part).last.success?
        FileUtils.rm_f(archive)
        raise Error, "git archive of #{name} failed in #{part}" unless ok

        File.rename(part, home)
      end
    end
  end
end
