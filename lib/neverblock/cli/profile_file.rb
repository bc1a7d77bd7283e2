# frozen_string_literal: true

require_relative "../../neverblock"

module NB
  module CLI
    # A profile that goes into a file, with the tables on stderr: of `nb profile` and
    # `nb serve --profile`.
    class ProfileFile
      # @param path [String]
      def initialize(path)
        @path = path
      end

      # Profiles the block, which runs a loop on this thread. It may end by an exception.
      #
      # @return what the block returns
      # @scheduling as the block
      def record
        NB::Profile.start # or it is another one's
        begin
          yield
        rescue UsageError
          NB::Profile.stop # nothing has run
          raise
        ensure
          profile = NB::Profile.stop # nil in a forked child
          write(profile) if profile
        end
      end

      private

      def write(profile)
        CLI.tell profile
        File.write(@path, profile.speedscope)
        CLI.tell "Flame graph: #{@path}; open it at https://www.speedscope.app, which reads it in your browser"
      rescue SystemCallError => error
        CLI.tell "the flame graph was not written: #{error.message}"
      end
    end
  end
end
