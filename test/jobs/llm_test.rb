# frozen_string_literal: true

require "minitest/autorun"
require_relative "../support/program"
require_relative "../support/servers"

# The application of examples/llm: jobs that stream what a language model says to a page.
class LLMTest < Minitest::Test
  GEMS = %w[ruby_llm turbo-rails].freeze
  FOLDER = "#{Program::ROOT}/examples/llm".freeze
  # NB_LLM=1000 asks as many at once as the README tells of.
  COUNT = Integer(ENV.fetch("NB_LLM", "20"))

  def setup
    there = GEMS.all? { |name| Gem::Specification.find_all_by_name(name).any? }
    return require "#{FOLDER}/crowd" if there

    skip "gems #{GEMS.join(" and ")} are not there for Ruby #{RUBY_VERSION}"
  end

  def test_each_answer_comes_whole_in_order_and_beside_the_others
    crowd = Crowd.new("http://127.0.0.1:#{application.port}", COUNT).run

    assert_equal [Crowd::QUESTION] * COUNT, crowd.texts
    begins, ends = %i[first last].map { |which| crowd.lines.values.map { |_, at| at.send(which) } }
    assert_operator begins.count { |at| at < ends.min }, :>, COUNT / 2
    assert_match(/\A#{COUNT} answers of 50 words in \d+\.\d s: \d+ words/, crowd.to_s)
    usage = Crowd.usage(application.pid)
    assert_match(/\Athe application: [1-9]\d+ MB at most, \d+\.\d s of CPU time\z/, usage)
    puts crowd, usage if ENV["NB_LLM"]
  end

  private

  def application
    service = serve("llm service", %w[--fibers 2000 service.ru])
    serve("llm", %w[config.ru], LLM: "http://127.0.0.1:#{service.port}/v1")
  end

  # @param words [Array<String>] flags, and the file
  def serve(name, words, **environment)
    told = { RUBYLIB: "#{Program::ROOT}/lib", **environment }.map { |pair| pair.join("=") }
    Servers.fetch(name) do |port, _|
      ["env", *told, *Program::NB, "serve", "--quiet", "--bind", "tcp://127.0.0.1:#{port}",
       *words[0...-1], "#{FOLDER}/#{words.last}"]
    end
  end
end
