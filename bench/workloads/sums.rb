# frozen_string_literal: true

module Bench
  module Workloads
    # The article's CPU-bound job: the sum of a range, cut in as many parts as there are workers.
    class Sums < Workload
      DEFAULTS = { workers: 1, iterations: 50_000, runs: 10, by: "runtime" }.freeze

      # Up to so many iterations, a sample is of :runs runs; beyond it of fewer.
      USUAL = 5_000_000
      private_constant :USUAL

      # Seconds of one run: the mean of several, as the article gives it.
      #
      # @return [Hash] :value in seconds
      def measure
        once
        runs = [params[:runs] / (params[:iterations] / USUAL.to_f).ceil, 1].max
        sample = timed do
          runs.times do
            once
            give_way
          end
        end
        @pool&.close
        sample.merge(value: sample[:elapsed] / runs, operations: runs)
      end

      # @param range [Range<Integer>]
      # @return [Integer]
      def self.add(range)
        sum = 0
        range.each { |number| sum += number }
        sum
      end

      private

      def once
        total = params[:iterations]
        sum = sums(parts).sum
        expect(sum == total * (total + 1) / 2, "the sum of #{total} is not #{sum}")
      end

      def parts
        increment = params[:iterations] / params[:workers].to_f
        Array.new(params[:workers]) do |index|
          (1 + (increment * index).to_i)..(increment * (index + 1)).to_i
        end
      end

      def sums(ranges)
        case runtime.id
        when "ractors" then in_ractors(ranges)
        when "processes" then in_processes(ranges)
        when "nb_processes" then in_processes_of_ours(ranges)
        when "nb_process_pool" then in_pool(ranges)
        else in_jobs(ranges)
        end
      end

      def in_jobs(ranges)
        sums = []
        gather(ranges.size) { |index| sums[index] = self.class.add(ranges[index]) }
        sums
      end

      def in_ractors(ranges)
        ranges.map { |range| Ractor.new(range) { |part| Bench::Workloads::Sums.add(part) } }
              .map { |ractor| ractor.respond_to?(:take) ? ractor.take : ractor.value }
      end

      # A child process per range, gone with its answer.
      def in_processes_of_ours(ranges)
        NB.gather(*ranges.map { |range| -> { NB.in_process { self.class.add(range) } } })
      end

      # Child processes that stay and take one range after the other.
      def in_pool(ranges)
        @pool ||= NB::ProcessPool.new(size: params[:workers]) do |first, last|
          Bench::Workloads::Sums.add(first..last)
        end
        NB.gather(*ranges.map { |range| -> { @pool.call(range.first, range.last) } })
      end

      # As in the article: a pipe per child, the result marshalled and packed.
      def in_processes(ranges)
        children = ranges.map do |range|
          reader, writer = IO.pipe
          pid = fork do
            reader.close
            writer.puts([Marshal.dump(self.class.add(range))].pack("m"))
            writer.close
            exit!(0)
          end
          writer.close
          [pid, reader]
        end
        children.map { |pid, reader| collect(pid, reader) }
      end

      def collect(pid, reader)
        text = reader.read
        reader.close
        Process.waitpid(pid)
        Marshal.load(text.unpack1("m"))
      end
    end
  end
end
