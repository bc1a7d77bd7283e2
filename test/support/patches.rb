# frozen_string_literal: true

# Lists what NeverBlock has changed in other people's classes in this process: ancestors of ours,
# methods written in our files, constants of ours.
#
#   ruby -Itest -r support/patches -e 'puts Patches.all'
module Patches
  LIB = File.expand_path("../../lib/neverblock", __dir__)
  KIND = Kernel.instance_method(:class)
  METHODS = %i[instance_methods private_instance_methods].map { |one| Module.instance_method(one) }
  # What a function in C that has a method's name calls.
  BODY = /\A(.+)_in_neverblock\d+\z/
  private_constant :LIB, :KIND, :METHODS, :BODY

  class << self
    # @return [Array<String>] one line for each, in order
    def all
      ObjectSpace.each_object(Module).select { |mod| plain?(mod) && !ours?(mod) }
        .flat_map { |mod| inherited(mod) + written(mod) + named(mod) }.uniq.sort
    end

    private

    # Skips stand-ins, such as ActiveSupport's for deprecated constants.
    def plain?(mod) = [Module, Class].include?(KIND.bind_call(mod))

    def ours?(mod) = mod.to_s.match?(/\A(#<Class:)?NB\b/)

    def inherited(mod)
      mod.ancestors.select { |one| ours?(one) }.map { |one| "#{mod} has #{one}" }
    rescue NoMethodError # a class that undefines it
      []
    end

    def written(mod)
      METHODS.flat_map { |list| list.bind_call(mod, false) }.filter_map do |name|
        next unless own(mod, name)&.source_location&.first&.start_with?(LIB)

        "#{mod}##{name[BODY, 1] || name}"
      end
    end

    # Not what a library has put in front.
    def own(mod, name)
      method = mod.instance_method(name)
      method = method.super_method until method.nil? || method.owner.equal?(mod)
      method
    end

    def named(mod)
      mod.constants(false).filter_map do |name|
        next if mod.autoload?(name) || mod.equal?(Object)

        value = mod.const_get(name)
        "#{mod}::#{name}" if Module === value && plain?(value) && ours?(value)
      rescue NameError, LoadError
        nil
      end
    end
  end
end
