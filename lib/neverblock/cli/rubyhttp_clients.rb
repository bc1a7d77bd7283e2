# frozen_string_literal: true

require "net/http"
require "timeout"

module NB
  module CLI
    # The clients of the study: Net::HTTP as it is, and with the ways of filling its buffer that the
    # study tried in 2008, as subclasses of Net::BufferedIO; nothing of Ruby's is changed.
    #
    # @example
    #   NB::CLI::RubyhttpClients.get("stock", port) { |chunk| p chunk.bytesize }
    module RubyhttpClients
      # What a client does in place of `rbuf_fill`: bytes it asks for, and how it waits.
      VARIANTS = {
        "stock" => nil,
        "custom-1kbuffer-timeout" => [1_024, :timeout],
        "custom-16kbuffer" => [16_384, :timeout],
        "custom-16kbuffer-notimeout" => [16_384, :none],
        "custom-16kbuffer-select" => [16_384, :select],
        "custom-16kbuffer-selectwithsysread" => [16_384, :select_sysread],
        "custom-64kbuffer-notimeout" => [65_536, :none],
        "custom-64kbuffer-select" => [65_536, :select],
        "custom-1mbuffer-notimeout" => [1_048_576, :none]
      }.freeze

      # Net::HTTP's buffer, filled in one of the ways of 2008.
      class Buffer < Net::BufferedIO
        # @param variant [Array(Integer, Symbol)] bytes asked for at once, and :timeout, :none,
        #   :select or :select_sysread
        # @param io [IO]
        # @param options [Hash] of Net::BufferedIO
        def initialize(variant, io, **options)
          super(io, **options)
          @size, @way = variant
        end

        private

        def rbuf_fill
          @rbuf << send(@way)
          @rbuf_empty = false # of newer versions
        end

        def none = @io.readpartial(@size)
        def timeout = Timeout.timeout(read_timeout) { @io.sysread(@size) }

        def select
          @io.read_nonblock(@size)
        rescue IO::WaitReadable
          IO.select([@io], nil, nil, read_timeout) or raise Net::ReadTimeout, @io
          retry
        end

        def select_sysread
          IO.select([@io], nil, nil, read_timeout) or raise Net::ReadTimeout, @io
          @io.sysread(@size)
        end
      end

      class << self
        # @param name [String] of {VARIANTS}
        # @param port [Integer] on this machine
        # @yieldparam chunk [String] a part of the answer's body
        # @return [void]
        # @raise [KeyError] for a name that is none
        # @scheduling may wait
        def get(name, port, &chunk)
          variant = VARIANTS.fetch(name)
          Net::HTTP.start("127.0.0.1", port) do |http|
            refit(http, variant) if variant
            http.request_get("/", "Accept-Encoding" => "identity") do |response|
              response.read_body(&chunk)
            end
          end
        end

        private

        # Nothing was read yet, so that the old buffer is empty.
        def refit(http, variant)
          old = http.instance_variable_get(:@socket)
          buffer = Buffer.new(variant, old.io, read_timeout: old.read_timeout,
                                               write_timeout: old.write_timeout)
          http.instance_variable_set(:@socket, buffer)
        end
      end
    end
  end
end
