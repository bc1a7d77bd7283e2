# frozen_string_literal: true

require "fileutils"

module Bench
  # The C programs of bench/rivals/, compiled when their source is newer.
  module Compiled
    SOURCE = File.join(HOME, "rivals")
    TARGET = File.join(ROOT, "tmp", "rivals", "c")
    FLAGS = %w[-std=gnu11 -O2 -Wall -Wextra].freeze
    private_constant :SOURCE, :TARGET, :FLAGS

    module_function

    # @param name [String] "c_echo"
    # @return [String] path of the program
    # @raise [Bench::Error] when there is no compiler or it fails
    def program(name)
      target = File.join(TARGET, name)
      return target if fresh?(target)

      FileUtils.mkdir_p(TARGET)
      source = File.join(SOURCE, "#{name}.c")
      # Under another name first: another process may use the program at this moment.
      new = "#{target}.#{Process.pid}"
      output, status = Command.capture("cc", *FLAGS, "-o", new, source)
      raise Error, "cc #{source} failed: #{output.lines.first}" unless status.success?

      File.rename(new, target)
      target
    rescue Errno::ENOENT
      raise Error, "no C compiler (cc) found: install gcc or clang for the rows in plain C"
    end

    # @param target [String]
    # @return [Boolean] whether the program is newer than every source
    def fresh?(target)
      File.exist?(target) &&
        Dir[File.join(SOURCE, "*.{c,h}")].all? { |path| File.mtime(path) <= File.mtime(target) }
    end
  end
end
