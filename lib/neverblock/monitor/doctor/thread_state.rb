# frozen_string_literal: true

require_relative "project"

module NB
  class Doctor
    # Ways to keep data in the thread, which all requests of a process share.
    module ThreadState
      # The thread as the key of a Hash.
      KEY = /(?:::)?Thread\.current(?:\.(?:object_id|__id__))?/
      OWN = "use Thread.current[:name], which is the fiber's own, or CurrentAttributes"
      KEPT = "use Thread.current[:name], which is the fiber's own; for connections that requests " \
             "share, NB::ConnectionPool"
      # Pattern of a line => what to use instead. By :fork_safe, servers and libraries tell which
      # threads they expect in a fork.
      WAYS = {
        /(?<!respond_to\?[( ]:)thread_variable_(get|set)\b(?!\(?\s*:fork_safe\b)/ => OWN,
        /\bThread\.(?:attr_(?:accessor|writer)\b|\w+\W.*\battr_(?:accessor|writer)\b)/ => OWN,
        /\[\s*#{KEY}\s*\]\s*(?:\|\||&&|[-+])?=(?![=~>])/ => KEPT,
        # What a Hash with a default, or an earlier line, keeps for it.
        /(?<=[\w)\]])\[\s*#{KEY}\s*\]\s*(?:\[|&?\.|<<)/ => KEPT,
        /\b(?:compute_if_absent|put_if_absent|fetch_or_store|store)\(\s*#{KEY}\s*[,)]/ => KEPT
      }.freeze
      # Every line of those.
      PATTERN = Regexp.union(*WAYS.keys)
      # `class Thread` opened again at the top level for an attribute.
      REOPENED = /^class (?:::)?Thread *\n(?:(?!end\b).*\n)*? +attr_(?:accessor|writer)\b.*$/
      private_constant :KEY, :OWN, :KEPT, :WAYS, :PATTERN, :REOPENED

      class << self
        # @param file [String]
        # @param name [String] what to call it
        # @return [Array<String>] "app/current.rb:5: …"
        # @scheduling never waits
        def lines(file, name)
          Project.grep(file, PATTERN, name) + reopened(file, name)
        end

        # @param line [String] one of {lines}
        # @return [String] what to use instead
        # @scheduling never waits
        def cure(line) = WAYS.find { |pattern, _| line.match?(pattern) }&.last || OWN

        # @return [String, nil] the first such line in the code of an installed gem
        # @scheduling may wait
        def in_gem(name, version)
          root = Gem::Specification.find_by_name(name, version).full_gem_path
          Dir[File.join(root, "lib/**/*.rb")].sort.each do |file|
            line = lines(file, file.delete_prefix("#{root}/")).first
            return line if line
          end
          nil
        rescue Gem::MissingSpecError
          nil # locked for another machine
        end

        private

        def reopened(file, name)
          text = File.read(file, encoding: "UTF-8").scrub
          found = text.match(REOPENED) or return []
          number = found.pre_match.count("\n") + found[0].count("\n") + 1
          ["#{name}:#{number}: #{found[0].lines.last.strip}"]
        end
      end
    end
  end
end
