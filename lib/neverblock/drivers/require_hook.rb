# frozen_string_literal: true

# Notices a library that is loaded after us when its `require` returns: the only moment that is both
# after its classes are complete and before its first connection. Ruby has no hook for that
# (Module#const_added is 3.2 and comes too early; a TracePoint makes YJIT discard its code). So
# Kernel#require is replaced, as RubyGems, Zeitwerk and Bootsnap do, and Kernel.require, which
# Bundler calls. It costs two Hash lookups per file; NB_DRIVERS=0 leaves it out.
[Kernel, Kernel.singleton_class].each do |place|
  place.class_eval do
    shown = public_method_defined?(:require)
    alias_method :neverblock_original_require, :require
    private :neverblock_original_require

    # @api private
    def require(path)
      loaded = neverblock_original_require(path)
      NB::Drivers.required(path) if loaded
      loaded
    end
    private :require unless shown
  end
end
