# frozen_string_literal: true

$LOAD_PATH.unshift(File.expand_path("../lib", __dir__))
require "minitest/autorun"
require "rbs"
require "neverblock"
require "neverblock/cli/delay_server"
require "neverblock/server"
require "neverblock/minitest"

# sig/neverblock.rbs declares every public method, with the parameters that the method takes, and
# no other.
class SignaturesTest < Minitest::Test
  FILE = File.expand_path("../sig/neverblock.rbs", __dir__)
  # They take a block only to say that they take none.
  NO_BLOCK = %w[NB.gather NB.settle NB.as_completed NB.first].freeze
  # Most of its methods are hooks that Ruby calls; of the other only a class inside is public.
  INNER = [NB::Scheduler, NB::KeyedLimiters].freeze
  OLD_NAMES = [NB::NBError].freeze

  # Class or module => { "initialize", "self.run" ... => its overloads; of an attribute none }
  def self.read(declarations, outer = "", found = {})
    declarations.grep(RBS::AST::Declarations::Base).each do |one|
      next unless one.respond_to?(:members) && !one.is_a?(RBS::AST::Declarations::Interface)

      name = "#{outer}#{one.name}"
      found[Object.const_get(name)] = one.members.each_with_object({}) do |member, methods|
        note(member, methods)
      end
      read(one.members, "#{name}::", found)
    end
    found
  end

  def self.note(member, methods)
    case member
    when RBS::AST::Members::MethodDefinition
      name = member.singleton? ? "self.#{member.name}" : member.name.to_s
      methods[name] = member.overloads.map { |overload| overload.method_type }
    when RBS::AST::Members::Attribute
      kind = member.class.name[/Attr(\w+)/, 1]
      methods[member.name.to_s] = nil unless kind == "Writer"
      methods["#{member.name}="] = nil unless kind == "Reader"
    when RBS::AST::Members::Alias
      methods[member.new_name.to_s] = nil
    end
  end

  SOURCE = RBS::Buffer.new(name: FILE, content: File.read(FILE))
  DECLARED = read(RBS::Parser.parse_signature(SOURCE).last)

  def test_every_public_class_is_there
    errors = NB.constants.map { |name| NB.const_get(name) }.grep(Class)
               .select { |one| one <= Exception && one.name.start_with?("NB::") }
    assert_empty errors - DECLARED.keys - OLD_NAMES
    [NB, NB::Task, NB::Group, NB::Limiter, NB::ConnectionPool, NB::FiberPool, NB::ProcessPool,
     NB::Outcome, NB::Server, NB::HTTP].each { |one| assert_includes DECLARED, one }
  end

  def test_every_keyword_is_documented
    all = DECLARED.flat_map { |type, names| names.keys.map { |name| method_of(type, name) } }
    missing = all.compact.flat_map do |one|
      text = comment_of(one).join
      names = keywords(one.parameters).keys.reject { |name| text.include?("@param #{name} ") }
      names.map { |name| "#{one.owner} #{one.name} #{name}:" }
    end
    assert_empty missing
  end

  DECLARED.each do |type, methods|
    name = type.name.gsub("::", "_")

    define_method("test_#{name}_has_each_method_that_is_declared") do
      methods.each_key { |method| assert method_of(type, method), "#{type}: there is no #{method}" }
    end

    define_method("test_#{name}_declares_each_public_method") do
      next if INNER.include?(type)

      assert_empty public_methods_of(type) - methods.keys
    end

    methods.each do |method, overloads|
      next unless overloads

      define_method("test_#{name}_#{method}_takes_what_is_declared") do
        found = method_of(type, method)
        compare(found.parameters, overloads, NO_BLOCK.include?("#{type}.#{found.name}"))
      end
    end
  end

  private

  def method_of(type, name)
    return type.method(name.delete_prefix("self.")) if name.start_with?("self.")

    found = type.instance_method(name)
    found = found.super_method until found.owner.name == type.name || found.super_method.nil?
    found # not what neverblock/minitest has put before it
  rescue NameError
    nil
  end

  def public_methods_of(type)
    instance = type.public_instance_methods(false).map { |name| method_of(type, name) }
    instance << type.instance_method(:initialize) if
      type.is_a?(Class) && type.private_instance_methods(false).include?(:initialize)
    single = type.singleton_methods(false).map { |name| type.method(name) }
    instance.reject { |one| inner?(one) }.map { |one| one.name.to_s } +
      single.reject { |one| inner?(one) }.map { |one| "self.#{one.name}" }
  end

  # @return [Boolean] whether its documentation says so
  def inner?(method) = comment_of(method).any? { |text| text.include?("@api private") }

  # @return [Array<String>] its lines; of a method written in C none
  def comment_of(method)
    path, line = method.source_location
    return [] unless path

    File.readlines(path).first(line - 1).reverse.take_while { |text| text.strip.start_with?("#") }
  end

  def compare(parameters, overloads, no_block)
    return if parameters.include?(%i[rest *]) # `...`
    return if parameters == [%i[rest]] # written in C

    types = overloads.map(&:type)
    assert_equal positional(parameters), [types.map { |one| one.required_positionals.size }.min,
                                          types.map { |one| most(one) }.max]
    assert_equal keywords(parameters), declared_keywords(types)
    assert_equal parameters.assoc(:keyrest).nil?, types.none?(&:rest_keywords)
    assert_equal !parameters.assoc(:block).nil? && !no_block, overloads.any?(&:block)
  end

  def positional(parameters)
    required, optional, rest = %i[req opt rest].map { |kind| parameters.count { |(k)| k == kind } }
    [required, rest.zero? ? required + optional : Float::INFINITY]
  end

  def most(type)
    return Float::INFINITY if type.rest_positionals

    type.required_positionals.size + type.optional_positionals.size
  end

  # One is required if it is so in each overload.
  def declared_keywords(types)
    all = types.flat_map { |type| type.required_keywords.keys + type.optional_keywords.keys }.uniq
    all.to_h { |name| [name, types.all? { |type| type.required_keywords.key?(name) }] }.sort.to_h
  end

  def keywords(parameters)
    parameters.select { |(kind)| %i[key keyreq].include?(kind) }
              .to_h { |kind, name| [name, kind == :keyreq] }.sort.to_h
  end
end
