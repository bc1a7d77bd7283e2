# frozen_string_literal: true

module NB
  class Server
    # The command that started this process, to start the program again in its place.
    #
    # @api private
    module Command
      class << self
        # Includes Ruby's own options. $PROGRAM_NAME and ARGV are not enough: programs remove words
        # from ARGV as they read them.
        #
        # @return [Array] for Process.exec
        def words
          ruby, program, *arguments = kernel_words
          return [[ruby, program], *arguments] if named?(arguments)

          [[ruby, ruby], *("--yjit" if yjit?), $PROGRAM_NAME, *titled(program)]
        end

        private

        # The executable, then its arguments; without /proc, no arguments.
        def kernel_words
          ruby = File.readlink("/proc/self/exe")
          ruby = RbConfig.ruby unless File.executable?(ruby) # a newer one has replaced it
          [ruby, *File.binread("/proc/self/cmdline").split("\0", -1)[0..-2]]
        rescue SystemCallError
          [RbConfig.ruby]
        end

        # With -S or a relative path the word differs. Compares bytes: names need not be valid in
        # the locale's encoding, above all in the C locale, in which many services run.
        def named?(arguments)
          name = File.basename($PROGRAM_NAME.b)
          arguments.any? { |word| File.basename(word) == name }
        end

        # Bundler overwrites the command line with a title (Process.setproctitle): the program and
        # its arguments, joined by blanks. RUBYOPT has Ruby's options then.
        def titled(title)
          name = "#{$PROGRAM_NAME} ".b
          return ARGV unless title.to_s.start_with?(name)

          words = title.delete_prefix(name).split
          words.last(ARGV.size) == ARGV.map(&:b) ? words : ARGV
        end

        def yjit? = defined?(RubyVM::YJIT.enabled?) && RubyVM::YJIT.enabled?
      end
    end
  end
end
