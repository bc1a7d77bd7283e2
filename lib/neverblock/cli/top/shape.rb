# frozen_string_literal: true

module NB
  module CLI
    module Top
      # The form that a snapshot must have. It is checked before anything is shown, because another
      # program, or another version of NeverBlock, may answer at the address.
      #
      # @api private
      module Shape
        NUMBER = ->(value) { value.is_a?(Numeric) && value.to_f.finite? }
        # Numbers by name.
        COUNTS = ->(value) { value.is_a?(Hash) && value.each_value.all?(NUMBER) }

        # rubocop:disable Style/CaseEquality -- a kind is a class or a Proc
        class << self
          # @param value [Object] parsed JSON
          # @return [Boolean]
          def fits?(value) = WHOLE === value

          private

          def maybe(kind) = ->(value) { value.nil? || kind === value }
          def list(kind) = ->(value) { value.is_a?(Array) && value.all?(kind) }

          # A Hash with these keys; it may have others.
          def record(**kinds)
            ->(value) { value.is_a?(Hash) && kinds.all? { |name, kind| kind === value[name] } }
          end

          def numbers(*names) = names.to_h { |name| [name, maybe(NUMBER)] }
          def texts(*names) = names.to_h { |name| [name, maybe(String)] }
        end
        # rubocop:enable Style/CaseEquality

        REQUEST = record(method: String, path: String, age_seconds: NUMBER, backtrace: list(String),
                         **numbers(:id, :fiber, :waited_seconds), **texts(:waits_for))
        FIBER = record(id: NUMBER, state: String, backtrace: list(String),
                       **numbers(:waited_seconds, :timeout_seconds),
                       **texts(:name, :place, :waits_for))
        USER = record(**numbers(:fiber, :held_seconds, :waited_seconds), **texts(:name, :place))
        POOL = record(name: String, holders: list(USER), waiters: list(USER), **texts(:kind),
                      **numbers(:size, :in_use, :waiting, :waits_total, :wait_seconds_total,
                                :timeouts_total))
        STALL = record(place: String, count: NUMBER, longest_ms: NUMBER, last_seconds_ago: NUMBER,
                       **texts(:method, :doing))
        LOOP = record(fibers: COUNTS, **numbers(:stands_seconds, :turns, :switches,
                                                :lag_seconds_total, :lag_timers_total))
        PROCESS = {pid: Integer, loop: maybe(LOOP), requests: list(REQUEST), fibers: list(FIBER),
                   pools: list(POOL), stalls: list(STALL), http: maybe(COUNTS), gc: maybe(COUNTS),
                   **numbers(:time, :index, :memory_bytes, :cpu_seconds, :running, :queued,
                             :connections, :report_age_seconds, :requests_left_out,
                             :fibers_left_out)}.freeze
        WHOLE = record(**PROCESS, time: NUMBER, version: String, ruby: String,
                                  uptime_seconds: NUMBER, workers: list(record(**PROCESS)))
        private_constant :NUMBER, :COUNTS, :REQUEST, :FIBER, :USER, :POOL, :STALL, :LOOP, :PROCESS,
                         :WHOLE
      end
    end
  end
end
