# frozen_string_literal: true

module NB
  module CLI
    # A program text that runs as if Ruby had been started with it.
    class Script
      # Whether this Ruby parses programs with Prism (3.4 and later, unless told otherwise).
      PRISM = RUBY_DESCRIPTION.include?("+PRISM")
      # The start of paths of our own frames.
      OURS = [File.expand_path("../../neverblock", __dir__), $PROGRAM_NAME,
              File.expand_path("../../../exe/nb", __dir__), "<internal:"].freeze
      private_constant :PRISM, :OURS

      # @param path [String] of a file, or - for standard input
      # @return [Script]
      # @raise [UsageError] if there is no such file
      def self.read(path)
        return new(path, $stdin.read) if path == "-"
        return new(path, File.read(path)) if File.pipe?(path) # such as <(command) in a shell
        raise UsageError, CLI.no_file(path) unless File.file?(path)

        new(path)
      end

      # @param name [String] the value of __FILE__ and $0
      # @param code [String, nil] nil: read the file of that name
      def initialize(name, code = nil)
        @name = name
        @code = code
      end

      # Compiles the script; its exceptions have a backtrace that looks like Ruby's own.
      #
      # @yieldparam main [RubyVM::InstructionSequence] runs at top level by `eval`
      # @scheduling may wait
      def call
        $PROGRAM_NAME = @name
        offer_data unless @code
        yield compile
      rescue UsageError
        raise
      rescue Exception => error # rubocop:disable Lint/RescueException -- raised again, for Ruby to report
        raise hide_our_frames(error)
      end

      private

      # Uses the parser that Ruby itself would use: 3.4 has two, with different messages.
      def compile
        sequence = RubyVM::InstructionSequence
        if @code
          path = File.join(Dir.pwd, @name) # require_relative starts from it
          PRISM ? sequence.compile_prism(@code, @name, path) : sequence.compile(@code, @name, path)
        else
          PRISM ? sequence.compile_file_prism(@name) : sequence.compile_file(@name)
        end
      rescue SyntaxError => error
        abort error.message if RUBY_VERSION < "3.2" # which prints the bare message
        raise
      end

      # DATA, which Ruby creates for the script it was started with: the text after __END__.
      def offer_data
        source = File.binread(@name)
        return unless source.match?(/^__END__\r?$/)

        require "ripper"
        lexer = Ripper::Lexer.new(source.force_encoding(Encoding::UTF_8))
        (line,), = lexer.lex.find { |_, type,| type == :on___end__ }
        return unless line

        data = File.open(@name)
        data.pos = source.each_line.first(line).sum(&:bytesize)
        unless PRISM # the older parser has read the lines before it through the file
          data.lineno = line
          data.set_encoding(lexer.encoding)
        end
        Object.const_set(:DATA, data)
      end

      # Ruby's report of an uncaught exception begins and ends in the script, so ours does, too.
      # Only #backtrace is changed: with #backtrace_locations, error_highlight still finds the
      # place.
      def hide_our_frames(error)
        [error, *causes_of(error)].each do |one|
          next if one.frozen? || one.backtrace.nil?

          shown = frames_of_script(one)
          one.define_singleton_method(:backtrace) { shown }
        end
        error
      end

      def frames_of_script(error)
        last = error.backtrace.rindex { |frame| !frame.start_with?(*OURS) }
        return [@name] unless last # raised before the script ran, or without a place

        error.backtrace[0..last].map { |frame| frame.sub("<compiled>", "<main>") }
      end

      def causes_of(error)
        causes = []
        while (error = error.cause) && !causes.include?(error)
          causes << error
        end
        causes
      end
    end
  end
end
