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
          ruby = File.readlink("/proc/self/exe")
          ruby = RbConfig.ruby unless File.executable?(ruby) # replaced by a newer one since
          program, *arguments = File.read("/proc/self/cmdline").split("\0", -1)[0..-2]
          return [[ruby, program], *arguments] if named?(arguments)

          [[ruby, ruby], *("--yjit" if yjit?), $PROGRAM_NAME, *titled(program)]
        end

        private

        # With -S or a relative path it is not the same word.
        def named?(arguments)
          arguments.any? { |word| File.basename(word) == File.basename($PROGRAM_NAME) }
        end

        # Bundler writes a title over the command line (Process.setproctitle): the program and its
        # words with blanks between. RUBYOPT has Ruby's options then.
        def titled(title)
          return ARGV unless title.to_s.start_with?("#{$PROGRAM_NAME} ")

          words = title.delete_prefix("#{$PROGRAM_NAME} ").split
          words.last(ARGV.size) == ARGV ? words : ARGV
        end

        def yjit? = defined?(RubyVM::YJIT.enabled?) && RubyVM::YJIT.enabled?
      end
    end
  end
end
