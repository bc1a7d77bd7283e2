# frozen_string_literal: true

require "minitest/autorun"
require "json"
require_relative "../support/subprocess"

# ActiveSupport and I18n in a program without Rails and ActiveRecord, each time in a process of its
# own.
class ActiveSupportDriverTest < Minitest::Test
  STATE = <<~RUBY
    require "active_support"
    require "active_support/core_ext/time"
    require "active_support/current_attributes"
    class Current < ActiveSupport::CurrentAttributes; attribute :user; end
    def set(user, zone, locale) = (Current.user, Time.zone, I18n.locale = user, zone, locale)
    def seen = [Current.user, Time.zone&.name, I18n.locale]
  RUBY
  LOCALE = <<~RUBY
    require "i18n"
    def set(_user, _zone, locale) = I18n.locale = locale
    def seen = I18n.locale
  RUBY
  PROGRAM = <<~RUBY
    require "json"
    I18n.available_locales = %i[en de fr]
    set(1, "Tokyo", :de)
    gates = Array.new(2) { Thread::Queue.new }
    answer = NB.run do
      one = Fiber.schedule { set(2, "London", :fr) && gates[0] << true && gates[1].pop }
      gates[0].pop
      other = nil
      Fiber.schedule { other = seen }
      gates[1] << true
      inherited = NB.gather(-> { seen.tap { set(3, "Paris", :en) } }, -> { sleep(0.001) && seen })
      [other, inherited, NB.async { seen.tap { set(4, "Rome", :en) } }.value, seen]
    end
    puts JSON.generate(answer << seen)
  RUBY
  EMPTY = [nil, nil, "en"].freeze
  OURS = [1, "Tokyo", "de"].freeze

  # An older I18n keeps the locale as that of Ruby 3.1 does.
  OLD = <<~RUBY
    I18n.singleton_class.class_eval do
      define_method(:config) do
        Thread.current.thread_variable_get(:i18n_config) || (self.config = I18n::Config.new)
      end
      define_method(:config=) { |value| Thread.current.thread_variable_set(:i18n_config, value) }
      define_method(:writable_config) { config }
    end
  RUBY

  def test_fibers_have_a_state_of_their_own_and_those_of_a_fiber_a_copy
    both_orders(STATE + OLD).each do |program|
      assert_equal [EMPTY, [OURS, OURS], OURS, OURS, OURS], answer(program + PROGRAM)
    end
  end

  def test_the_locale_alone
    both_orders(LOCALE + OLD).each do |program|
      assert_equal ["en", %w[de de], "de", "de", "de"], answer(program + PROGRAM)
    end
  end

  # Rails puts a proxy in the place of I18n's configuration there.
  ACTION = <<~RUBY
    require "json"
    require "rack/mock"
    I18n.available_locales = %i[en de fr]
    class TalkController < ActionController::Base
      def show
        I18n.with_locale(:fr) do
          said = NB.gather(speaking(:de), speaking(:en))
          said << NB.async(&speaking(:de)).value << I18n.locale
          render(plain: JSON.generate(said))
        end
      end

      private

      def speaking(locale)
        lambda do
          heard = [I18n.locale]
          I18n.with_locale(locale) { sleep(0.01) && (heard << I18n.locale) }
          heard << I18n.locale
        end
      end
    end
    NB.run do
      _, _, body = TalkController.action(:show).call(Rack::MockRequest.env_for("/"))
      body.each { |part| puts(part) }
    end
  RUBY

  def test_fibers_of_an_action_have_a_locale_of_their_own
    load = "require 'action_controller'\n"
    (both_orders(load) + both_orders(load + OLD)).each do |program|
      assert_equal [%w[fr de fr], %w[fr en fr], %w[fr de fr], "fr"], answer(program + ACTION)
    end
  end

  def test_loaded_inside_of_a_loop
    program = "require 'neverblock'\nNB.run { eval(<<~'CODE', TOPLEVEL_BINDING) }\n" \
              "#{STATE}#{PROGRAM}CODE\n"
    other, *rest = answer(program)
    assert_equal [[nil, nil], [[OURS, OURS], OURS, OURS, OURS]], [other.first(2), rest]
  end

  # A fiber that starts loads nothing more, and no translations.
  PARTS = %w[active_support active_support/isolated_execution_state
             active_support/current_attributes
             active_support/notifications active_support/all].freeze

  def test_a_program_that_loads_a_part_of_it
    PARTS.each do |part|
      program = <<~RUBY
        require "active_support"
        require "#{part}"
        require "neverblock"
        require "json"
        answer = NB.run do
          ActiveSupport::IsolatedExecutionState[:mine] = 1
          NB.gather(-> { ActiveSupport::IsolatedExecutionState[:mine] }, -> { sleep(0.001) && 2 })
        end
        loaded = defined?(I18n.backend) && I18n.backend.initialized?
        puts JSON.generate([answer, loaded || false])
      RUBY
      assert_equal [[1, 2], false], answer(program), part
    end
  end

  # Without "active_support" itself, as gems do. What comes later is cured.
  PIECES = %w[active_support/version active_support/core_ext/object/blank active_support/inflector
              active_support/logger active_support/notifications i18n/version].freeze

  def test_a_program_that_loads_a_piece_before_the_rest
    PIECES.each do |piece|
      both_orders("require '#{piece}'\n").each do |program|
        program += "p NB.run { NB.gather(-> { 1 }, -> { sleep(0.001) && 2 }) }\n"
        result = Subprocess.ruby(program, loaded: false)
        assert_equal ["[1, 2]\n", ""], [result.out, result.err], piece
        result = Subprocess.ruby(program + STATE + PROGRAM, loaded: false)
        other, *rest = JSON.parse(result.out.lines.last)
        assert_equal [[nil, nil], [[OURS, OURS], OURS, OURS, OURS]], [other.first(2), rest], piece
      end
    end
  end

  # As tests of gems do; an Enumerator in a fiber of the loop still has the fiber's state.
  def test_an_isolation_level_that_changes_for_a_while
    both_orders(STATE).each do |program|
      assert_equal 1, answer(<<~RUBY)
        #{program}
        require "json"
        answer = NB.run do
          %i[thread fiber].each do |level|
            ActiveSupport::IsolatedExecutionState.isolation_level = level
          end
          NB.async { Current.user = 1 and Enumerator.new { |seen| seen << Current.user }.next }.value
        end
        puts JSON.generate(answer)
      RUBY
    end
  end

  def test_switched_off_they_are_left_alone
    off = { "NB_DRIVERS" => "-active_support,-i18n" }
    crossed = [2, "London", "fr"]
    assert_equal crossed, answer("require 'neverblock'\n#{STATE}#{OLD}#{PROGRAM}", env: off).first
  end

  private

  def both_orders(program)
    ["require 'neverblock'\n#{program}", "#{program}require 'neverblock'\n"]
  end

  def answer(program, env: {})
    result = Subprocess.ruby(program, env: env, loaded: false)
    assert_empty result.err
    JSON.parse(result.out)
  end
end
