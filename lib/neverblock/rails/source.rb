# frozen_string_literal: true

module NB
  module Rails
    # Finds the line of the application that an error message should name.
    module Source
      # @param root [Pathname] of the application
      # @param pattern [Regexp] for the line
      # @param globs [Array<String>] the files to search, relative to root
      # @return [String, nil] such as "config/database.yml:9 (adapter: oracle)"
      # @scheduling never waits
      def self.line(root, pattern, *globs)
        Dir[*globs, base: root.to_s].sort.each do |path|
          File.foreach(File.join(root, path)).with_index(1) do |line, number|
            next if line.lstrip.start_with?("#") || !line.match?(pattern)

            return "#{path}:#{number} (#{line.strip})"
          end
        end
        nil
      end
    end
  end
end
