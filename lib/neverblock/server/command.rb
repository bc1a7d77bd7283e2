# frozen_string_literal: true

module NB
  class Server
    # How this process was started, in order to start it anew in its place.
    #
    # @api private
    module Command
      class << self
        # Ruby's own options included. What is in $PROGRAM_NAME and ARGV is not enough: programs
        # take words off ARGV as they read them.
        #
        # @return [Array] for Process.exec
        def words
          ruby, program, *arguments = kernel_words
          return [[ruby, program], *arguments] if named?(arguments)

          [[ruby, ruby], *("--yjit" if yjit?), $PROGRAM_NAME, *titled(program)]
        end

        private

        # The executable, then what it was called with; nothing of the second without /proc.
        def kernel_words
          ruby = File.readlink("/proc/self/exe")
          ruby = RbConfig.ruby unless File.executable?(ruby) # replaced by a newer one since
          [ruby, *File.binread("/proc/self/cmdline").split("\0", -1)[0..-2]]
        rescue SystemCallError
          [RbConfig.ruby]
        end

        # With -S or a relative path it is not the same word. Bytes: names need not be valid in the
        # encoding of the locale, above all in the C locale, which many services run in.
        def named?(arguments)
          name = File.basename($PROGRAM_NAME.b)
          arguments.any? { |word| File.basename(word) == name }
        end

        # Bundler writes a title over the command line (Process.setproctitle): the program and its
        # words with blanks between. RUBYOPT has Ruby's options then.
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
