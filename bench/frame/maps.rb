# frozen_string_literal: true

module Bench
  # How many memory mappings a process may have: raised while the bench measures, where it is asked
  # to. The limit is the whole machine's, so it is put back.
  module Maps
    PATH = "/proc/sys/vm/max_map_count"

    module_function

    # @param count [Integer, nil] nil leaves the limit alone, and so does one that is no higher
    # @param path [String]
    # @yield with the higher limit
    # @return [Object] value of the block
    # @raise [Bench::Error] when it cannot be raised
    def raised(count, path: PATH)
      before = count && limit(path)
      return yield unless before && count > before

      begin
        write(path, count)
        yield
      ensure
        # Unless somebody else has changed it meanwhile.
        write(path, before) if limit(path) == count
      end
    end

    # @param path [String]
    # @return [Integer]
    def limit(path) = Integer(File.read(path))

    # @param path [String]
    # @param count [Integer]
    # @return [void]
    def write(path, count)
      File.write(path, count.to_s)
    rescue SystemCallError => error
      raise Error, "--maps: cannot set vm.max_map_count to #{count} (#{error.message}); it needs " \
                   "root, and a container may not have it"
    end
  end
end
