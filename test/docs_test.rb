# frozen_string_literal: true

require "minitest/autorun"
require "open3"
require "optparse"
require "rbconfig"
require_relative "../lib/neverblock/cli"

# What the pages promise is there: files and anchors that they link, options of `nb`, rake tasks.
class DocsTest < Minitest::Test
  ROOT = File.expand_path("..", __dir__)
  PAGES = Dir.glob(%w[*.md docs/*.md examples/**/*.md], base: ROOT).sort.freeze

  PAGES.each do |page|
    define_method("test_links_of_#{page}") do
      links = prose(page).scan(/\]\(([^)\s]+)\)/).flatten.grep_v(/\A(?:https?|mailto):/)
      assert_empty(links.reject { |link| there?(page, link) })
    end

    define_method("test_commands_in_#{page}") do
      said = text(page).scan(/\bnb ([a-z]+)((?: +(?:--?[a-zA-Z]|[^\s`|#;()])[^\s`|#;()]*)*)/)
      said.select! { |command, _| NB::CLI::COMMANDS.key?(command) }
      unknown = said.flat_map do |command, words|
        words.scan(/(?<=\s)--[a-z][a-z-]*/).reject { |option| knows?(command, option) }
      end
      assert_empty unknown
    end
  end

  def test_rake_tasks
    out, status = Open3.capture2(RbConfig.ruby, "-S", "rake", "-AT", chdir: ROOT)
    assert_predicate status, :success?
    named = PAGES.flat_map { |page| text(page).scan(/(?<=`|\A|\n)rake ([a-z_]+(?::[a-z_]+)*)/) }
    assert_empty named.flatten.uniq - out.scan(/^rake ([a-z_:]+)/).flatten
  end

  private

  def text(page) = File.read(File.join(ROOT, page), encoding: "UTF-8")
  def prose(page) = text(page).gsub(/^ *```.*?^ *```/m, "")

  def there?(page, link)
    path, anchor = link.split("#", 2)
    target = path.empty? ? page : File.join(File.dirname(page), path)
    File.exist?(File.join(ROOT, target)) && (anchor.nil? || anchors(target).include?(anchor))
  end

  # As GitHub makes them of headings.
  def anchors(page)
    seen = Hash.new(0)
    prose(page).scan(/^#+ +(.+)$/).map do |(heading)|
      words = heading.gsub(/\[([^\]]*)\]\([^)]*\)/, '\1').downcase.gsub(/[^[:word:]\- ]/, "")
      name = words.tr(" ", "-")
      again = (seen[name] += 1) - 1
      again.zero? ? name : "#{name}-#{again}"
    end
  end

  # `nb profile` also takes the options of `nb run`.
  def knows?(command, option)
    [command, *("run" if command == "profile")].any? do |name|
      usage = NB::CLI.command(name)::USAGE
      usage.include?(option) || usage.include?(option.sub("--", "--[no-]"))
    end
  end
end
