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

          [[ruby, ruby], *("--yjit" if yjit?), *warnings, *@libraries, $PROGRAM_NAME,
           *titled(program)]
        end

        # Notes the folders of `ruby -I`, for a system that does not tell the command: those before
        # the folders of gems and of Ruby itself. Must be called before an application is loaded,
        # because applications put their own folders there.
        #
        # @return [void]
        def note_libraries
          inherited = ENV["RUBYLIB"].to_s.split(File::PATH_SEPARATOR)
          inherited.map! { |path| File.expand_path(path) }
          @libraries = ($LOAD_PATH.take_while { |path| !installed.include?(path) } - inherited)
                       .map { |path| "-I#{path}" }
        end

        private

        def installed
          gems = defined?(Gem) ? Gem.loaded_specs.values.flat_map(&:full_require_paths) : []
          gems + RbConfig::CONFIG.values_at("sitelibdir", "rubylibdir")
        end

        # The option that sets $VERBOSE, unless it is Ruby's default.
        def warnings = {true => ["-w"], nil => ["-W0"]}[$VERBOSE]

        # The executable, then its arguments; without /proc, as on macOS, no arguments.
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
