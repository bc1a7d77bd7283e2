# frozen_string_literal: true

require_relative "../../loop/dump"

module NB
  class Profile
    # One stack, and what happened there.
    class Entry
      # A line in a method.
      Frame = Struct.new(:label, :path, :line, :definition) do
        # @return [String] "app.rb:12"; "" in C
        def place = path ? "#{shown_path}:#{line}" : ""
        # @return [String] where the method or block begins
        def beginning = label == "<main>" ? shown_path : "#{shown_path}:#{definition || line}"
        # @return [String] "app.rb:12 (Shop#pay)"; in C the method alone
        def to_s = path ? "#{place} (#{label})" : label

        # @return [String] the file, below the working directory without that
        def shown_path
          path.delete_prefix("#{Dir.pwd}/")
        rescue SystemCallError
          path # the working directory was deleted
        end
      end

      # In the order of nb_park_kind_t, then the kinds of loop/profile.c; nil: not shown.
      KINDS = [:io, :io, :sleep, :lock, :process, :resolve, :offload, :turn, nil, nil, nil, nil,
               :turn, :computes, :garbage, :gvl, :outside].freeze
      # What the thread does; all others are waits of fibers.
      OF_THREAD = %i[computes garbage gvl outside].freeze
      # The name of a fiber that has no line of the program.
      OWN = "(NeverBlock)"
      # Files whose waits are for a member of a pool.
      POOLS = %r{/(?:sync/(?:connection_pool|process_pool|fiber_pool)|connection_pool(?:/\w+)*|
                 active_record/.*/(?:connection_pool|queue))\.rb\z}x.freeze
      # Methods in which Ruby makes a thread sleep that waits for another one.
      LOCKS = /\A(?:Thread::)?(?:Mutex|ConditionVariable|Monitor|MonitorMixin::\w+)#/.freeze
      # Methods that wait for a child, by the fd that the kernel has for a process.
      CHILDREN = /\A(?:Process[.:]|Kernel#system\z)/.freeze
      # The file in which the server's fibers begin.
      SERVER = File.expand_path("../../native.rb", __dir__)
      # Commands that start programs.
      COMMAND = %r{/(?:exe|bin)/(?:nb|rails|bundle)\z}.freeze
      private_constant :KINDS, :OWN, :POOLS, :LOCKS, :CHILDREN, :SERVER, :COMMAND

      # @return [Symbol] :io, :sleep, :pool, :lock, :process, :resolve, :offload, :turn (others ran
      #   first), :computes, :garbage, :gvl, :outside (of the loop)
      attr_reader :kind
      # @return [String] what was waited for: "read 10.0.0.5:5432", "Thread::Queue"; or ""
      attr_reader :subject
      # @return [Integer] how often; for :computes the number of samples
      attr_reader :times
      # @return [Float] seconds: of all waits, of the longest, and from their ends until the fiber
      #   ran
      attr_reader :total, :longest, :turn
      # @return [Array<Frame>] the innermost first, without the frames in which every fiber begins
      attr_reader :frames
      # @return [String] where its fiber begins
      attr_reader :fiber
      # @return [Frame, nil] the program's innermost line
      attr_reader :place

      # @param stacks [Array] from Native.profile_read
      # @param names [Array]
      # @return [Array<Entry>]
      def self.read(stacks, names)
        names.each { |name| name.map! { |part| part.is_a?(String) ? utf8(part) : part } }
        all = stacks.filter_map { |stack| new(stack, names) if stack[0] < 0 || KINDS[stack[0]] }
        all.select { |one| one.of_thread? || one.fiber != OWN }
      end

      def self.utf8(text) = text.b.force_encoding(Encoding::UTF_8).scrub
      private_class_method :utf8

      def initialize(stack, names)
        kind, @subject, @times, *times, numbers, lines = stack
        @total, @longest, @turn = times.map { |ns| ns / 1e9 }
        all = numbers.zip(lines).map { |number, line| frame(names[number], line) }
        all.reject! { |one| COMMAND.match?(one.path.to_s) }
        @place = Dump.others.filter_map { |paths| all.find { |one| outside?(one, paths) } }.first
        @fiber = name_fiber(all)
        @frames = trim(all)
        @kind = kind.negative? ? :other : refine(KINDS[kind])
      end

      # @return [Boolean] whether it is about the loop's thread: such times do not overlap
      def of_thread? = OF_THREAD.include?(@kind)

      private

      def frame((label, path, first), line)
        return Frame.new(label, nil, nil, nil) if path.nil? || path.start_with?("<internal:")

        Frame.new(label, path, line, first)
      end

      def outside?(frame, paths) = frame.path && !frame.path.start_with?(*paths)

      def name_fiber(all)
        return "(the loop)" if all.empty?
        return "requests" if all.reverse.find(&:path)&.path == SERVER

        outer = all.reverse
        first = Dump.others.filter_map { |paths| outer.find { |one| outside?(one, paths) } }.first
        first ? first.beginning : OWN
      end

      # Without our frames at both ends, which all stacks have in common.
      def trim(all)
        last = all.rindex { |one| outside?(one, Dump.others.last) } or return []
        shown = all.first(last + 1)
        shown.shift while shown.first&.label&.start_with?("NB::Scheduler#")
        shown
      end

      # A pool makes fibers wait by a lock, and a lock makes them wait by a sleep.
      def refine(kind)
        return :process if kind == :io && CHILDREN.match?(@frames.first&.label.to_s)
        return kind unless %i[sleep lock].include?(kind)

        return :offload if @subject.start_with?("NB::Offload")

        inner = @frames.take_while { |one| !one.equal?(@place) }
        return :pool if inner.any? { |one| POOLS.match?(one.path.to_s) }

        inner.first && LOCKS.match?(inner.first.label.to_s) ? :lock : kind
      end
    end
  end
end
