# frozen_string_literal: true

$LOAD_PATH.unshift(File.expand_path("../../lib", __dir__))
require "minitest/autorun"
require "neverblock"
require "open3"
require "rbconfig"
require "socket"

# Programs ask methods what they take (RSpec's doubles, Net::HTTP, Dalli, wrappers that pass on
# arguments), so every method that repairs and drivers replace keeps its arity, the kinds of its
# parameters, its visibility, and its place among the ancestors. As Ruby alone says, in a process of
# its own.
class ParametersTest < Minitest::Test
  SHOW = <<~'RUBY'
    require "socket"
    require "net/http"
    require "timeout"
    require "monitor"
    if ARGV.first == "repaired"
      require "neverblock"
      NB.run { nil }
    end
    name_of = ->(one) { Module.instance_method(:name).bind_call(one) } # some define their own
    named = ObjectSpace.each_object(Module).reject do |one|
      one.singleton_class? || name_of[one].nil? || name_of[one].match?(/\A(?:NB|NeverBlock|Gem|#)/)
    end
    found = named.flat_map do |one|
      [[one, "#{name_of[one]}#"], [one.singleton_class, "#{name_of[one]}."]]
    end
    shown = found.flat_map do |owner, label|
      names = owner.instance_methods(false) + owner.private_instance_methods(false)
      names.grep_v(/neverblock|__nb_/).map do |name|
        visibility = %w[public protected private].find do |one|
          owner.public_send("#{one}_method_defined?", name)
        end
        method = owner.instance_method(name)
        kinds = method.parameters.map(&:first)
        ancestors = owner.ancestors.filter_map(&name_of)
        ["#{label}#{name}", [visibility, method.arity, kinds, name_of[method.owner], ancestors]]
      end
    end
    print(Marshal.dump(shown.to_h))
  RUBY

  def self.shown(way)
    output, status = Open3.capture2(
      RbConfig.ruby, "-W0", "-I#{File.expand_path("../../lib", __dir__)}", "-", way,
      stdin_data: SHOW, binmode: true
    )
    raise "the child of #{way} failed: #{status}" unless status.success?

    Marshal.load(output) # rubocop:disable Security/MarshalLoad -- of our own child
  end

  RUBYS_OWN = shown("plain").freeze
  REPAIRED = shown("repaired").freeze

  def test_each_replaced_method_takes_what_rubys_own_takes
    differing = RUBYS_OWN.keys.select { |name| RUBYS_OWN[name] != REPAIRED[name] }
    assert_empty(differing.map { |name| [name, RUBYS_OWN[name], REPAIRED[name]] })
  end

  def test_the_replaced_methods_are_among_them
    %w[IO#close IO#syswrite IO.popen Thread.start UDPSocket#bind Fiber#raise Kernel#require
       BasicSocket#recv Net::HTTPGenericRequest#write_header].each do |name|
      assert_includes RUBYS_OWN, name
    end
    refute_equal REPAIRED, {}
  end

  def test_a_wrong_number_of_arguments_is_refused_where_the_program_calls
    NB.run { nil } # installs the repairs
    socket = UDPSocket.new
    error = assert_raises(ArgumentError) { socket.bind(1) }
    assert_equal "wrong number of arguments (given 1, expected 2)", error.message
    assert_match(/#{File.basename(__FILE__)}:\d+:in .*bind/, error.backtrace.first)
  ensure
    socket&.close
  end
end
