# frozen_string_literal: true

# A library that is loaded after us is noticed when its `require` returns: the only moment that is
# both after its classes are complete and before its first connection. Ruby has no hook for it
# (Module#const_added is 3.2 and comes too early; a TracePoint makes YJIT throw its code away), so
# Kernel#require is replaced, as RubyGems, Zeitwerk and Bootsnap do. It costs one lookup in a Hash
# per file; NB_DRIVERS=0 leaves it out.
module Kernel
  alias neverblock_original_require require
  private :neverblock_original_require

  private

  # @api private
  def require(path)
    loaded = neverblock_original_require(path)
    NB::Drivers.required(path) if loaded
    loaded
  end
end
