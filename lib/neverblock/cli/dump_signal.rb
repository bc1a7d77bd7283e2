# frozen_string_literal: true

require_relative "printable"

module NB
  module CLI
    # Asks a process without a control socket through PWR, at which `nb serve` and `nb run` print
    # their fibers. Only a process that has loaded NeverBlock and handles PWR gets the signal: it
    # would end any other.
    #
    # @api private
    class DumpSignal
      # The signal.
      NAME = "PWR"
      # Seconds for the process to write something.
      PATIENCE = 3
      # Seconds without further output after which it counts as done.
      SILENCE = 0.3
      private_constant :NAME, :PATIENCE, :SILENCE

      # @param pid [Integer]
      def initialize(pid)
        @pid = pid
      end

      # @return [Integer] exit status
      # @raise [Failure] if the process cannot be asked, or writes nothing
      # @scheduling always waits
      def call
        raise Failure, UNKNOWN % @pid unless loaded? && handled?

        place = File.readlink("/proc/#{@pid}/fd/2")
        before = File.file?(place) ? File.size(place) : nil
        Process.kill(NAME, @pid)
        before ? show(place, before) : puts("pid #{@pid} prints on its stderr, #{place}")
        0
      rescue Errno::ESRCH, Errno::ENOENT
        raise Failure, File.directory?("/proc/self") ? "there is no process #{@pid}" :
                       "a pid works on Linux only"
      rescue Errno::EPERM, Errno::EACCES
        raise Failure, "process #{@pid} belongs to another user: ask as that user"
      end

      private

      UNKNOWN = "process %d does not handle SIGPWR as NeverBlock does, so the signal might end " \
                "it: give the address of its control socket, or have it call NB.dump_on(\"PWR\")"
      private_constant :UNKNOWN

      # The file may have been replaced since.
      def loaded? = File.foreach("/proc/#{@pid}/maps").any?(/neverblock\.so( \(deleted\))?$/)

      def handled?
        caught = File.read("/proc/#{@pid}/status")[/^SigCgt:\s*(\h+)/, 1].to_i(16)
        caught.anybits?(1 << (Signal.list.fetch(NAME) - 1))
      end

      # What is added to the file.
      def show(place, before)
        text = File.open(place, "rb") do |file|
          file.seek(before)
          read(file)
        end
        raise Failure, silence(place) if text.empty?

        puts Printable.lines(text)
      end

      def silence(place)
        "process #{@pid} has written nothing to #{place} in #{PATIENCE} s: it is stopped, has " \
          "nothing to print, or C code in it keeps the GVL"
      end

      def read(file)
        text = +""
        idle = 0
        until idle >= (text.empty? ? PATIENCE : SILENCE)
          more = file.read.to_s
          text << more
          idle = more.empty? ? idle + 0.05 : 0
          sleep 0.05
        end
        text
      end
    end
  end
end
