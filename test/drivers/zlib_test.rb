# frozen_string_literal: true

require_relative "../support/transparency"
require "zlib"

# zlib computes without Ruby's lock, so other threads go on, but not the fibers of its own thread.
class ZlibTest < Transparency
  library "zlib", group: "Ruby's own libraries", gems: %w[zlib]

  TEXT = Random.new(1).bytes(1 << 20).unpack1("H*").freeze

  blocks "compressing 4 MB", why: "it computes on the loop's thread",
         instead: "NB.offload { }" do
    measure(count: 3, delay: 0) { Zlib.deflate(TEXT * 2) }
  end

  waits "compressing 256 KB in NB.offload, while others sleep" do
    NB.offload { nil } # starts the thread
    measure(count: 4) { |i| i.zero? ? NB.offload { Zlib.deflate(TEXT[0, 1 << 18]) } : sleep(0.1) }
  end

  fails "bytes that are not compressed" do
    Zlib.inflate("no")
  end
end
