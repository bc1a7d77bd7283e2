# frozen_string_literal: true

module Bench
  # Files of /proc and /sys.
  module KernelFile
    # @param path [String]
    # @return [String] "" if there is none: a process may end between listing and reading, and not
    #   every kernel has every file
    def self.read(path)
      File.read(path)
    rescue SystemCallError
      ""
    end
  end
end
