# frozen_string_literal: true

# rubocop:disable Layout/LineLength -- a script or an expectation each, better on one line

require "minitest/autorun"
require "tsort"

# The rooms of docs/ARCHITECTURE.md, which of them each may use, and that every file is in one.
class ArchitectureTest < Minitest::Test
  ROOT = File.expand_path("..", __dir__)
  LIB = File.join(ROOT, "lib/neverblock")
  EXT = File.join(ROOT, "ext/neverblock")

  ROOMS = {
    base: %w[version errors clock fiber_state fibers_setting legible error_report],
    loop: %w[native loop/*], sync: %w[sync/*],
    drivers: %w[drivers/*], server: %w[server server/* page page/*], monitor: %w[monitor/*],
    rails: %w[rails/*], legacy: %w[legacy/*], puma: %w[puma/*],
    eventmachine: %w[eventmachine], testing: %w[minitest rspec testing/*],
    cli: %w[cli cli/*]
  }.freeze
  FEATURES = %i[server drivers monitor].freeze
  EDGES = %i[rails legacy puma eventmachine testing].freeze
  BELOW_FEATURES = %i[base loop sync].freeze

  # An arrow points to what a room may use, only downwards; features and edges know none of their
  # own.
  MAY_USE = {
    base: [], loop: %i[base], sync: %i[base],
    **FEATURES.to_h { |room| [room, BELOW_FEATURES + %i[surface]] },
    **EDGES.to_h { |room| [room, BELOW_FEATURES + FEATURES + %i[surface]] },
    legacy: BELOW_FEATURES + FEATURES + %i[surface eventmachine],
    cli: BELOW_FEATURES + FEATURES + EDGES + %i[surface]
  }.freeze

  # Folders of C. init.c calls the Init of every room and is in none.
  C_MAY_USE = {
    "base" => [], "backend" => %w[base], "http" => %w[base], "delayd" => %w[base loop],
    "loop" => %w[base backend], "offload" => %w[base],
    "hooks" => %w[base backend loop offload], "server" => %w[base backend http loop hooks offload],
    "drivers" => %w[base http loop hooks]
  }.freeze

  Dir["#{LIB}/**/*.rb"].each do |path|
    define_method("test_#{path.delete_prefix("#{LIB}/")}_requires_only_rooms_it_may") do
      mine = room(path)
      required(path).each do |target|
        assert_includes [mine, *MAY_USE.fetch(mine)], room(target), "#{path} requires #{target}"
      end
    end

    define_method("test_#{path.delete_prefix("#{LIB}/")}_is_short_enough_to_read") do
      assert_operator File.foreach(path).count, :<, 400, path
    end
  end

  Dir["#{EXT}/**/*.{c,h}"].each do |path|
    name = path.delete_prefix("#{EXT}/")

    define_method("test_#{name}_says_what_it_is") do
      head = %r{\A/\* #{Regexp.escape(File.basename(path))} - .*\b(Pure C|Uses ruby\.h)}
      assert_match(head, File.open(path, &:readline))
    end

    define_method("test_#{name}_includes_only_rooms_it_may") do
      next if name == "init.c"

      mine = c_room(path)
      included(path).each do |file|
        assert_includes [mine, *C_MAY_USE.fetch(mine)], c_room(file), "#{name} includes #{file}"
      end
    end

    define_method("test_#{name}_leaves_the_kernels_headers_to_the_backends") do
      linux = File.foreach(path).grep(%r{#\s*include <linux/})
      tested = name.start_with?("backend/") && File.read(path).include?("#ifdef HAVE_LINUX")
      assert_empty linux unless tested
    end

    define_method("test_#{name}_if_pure_knows_no_ruby") do
      next unless pure?(path)

      ruby = /#\s*include\s*[<"]ruby|\bVALUE \**\w|\brb_\w+|\bxmalloc\b|\bQ(?:nil|true|false|undef)\b/
      assert_empty without_comments(path).scan(ruby), "#{name} says it is pure C"
      included(path).each do |file|
        assert pure?(file), "#{name} includes #{file}, which knows Ruby"
      end
    end
  end

  Dir["#{EXT}/*/"].each do |folder|
    room = File.basename(folder)
    define_method("test_the_files_of_#{room}_use_each_other_in_no_circle") do
      uses = uses_in(folder)
      circles = TSort.strongly_connected_components(->(&b) { uses.each_key(&b) },
                                                    ->(name, &b) { uses[name].each(&b) })
      assert_empty circles.reject(&:one?).map { |names| uses.slice(*names) }
    end
  end

  ROOMS.each do |room, globs|
    define_method("test_the_ruby_files_of_#{room}_use_each_other_in_no_circle") do
      files = Dir[*globs.map { |glob| "#{LIB}/#{glob}{,/**/*}.rb" }].uniq
      uses = ruby_uses(files)
      circles = TSort.strongly_connected_components(->(&b) { uses.each_key(&b) },
                                                    ->(name, &b) { uses[name].each(&b) })
      assert_empty circles.reject(&:one?).map { |names| uses.slice(*names) }
    end
  end

  %w[server loop].each do |room|
    define_method("test_the_files_of_#{room}_use_those_before_them") do
      uses = uses_in("#{EXT}/#{room}/")
      order = File.read("#{EXT}/#{room}/#{room}.h", encoding: "UTF-8")
                  .scan(/^ \*   (\w+(?: · \w+)+)/).flat_map { |line,| line.split(" · ") }
      assert_equal uses.keys.sort, order.sort, "#{room}.h says in which order they stand"
      uses.each { |name, used| assert_empty used - order.take(order.index(name)), "#{name}.c" }
    end
  end

  # The old names are methods of NB too; what is behind them comes by autoload.
  def test_the_public_surface_requires_rooms_by_one_door
    doors = %w[legacy/names.rb rails/railtie.rb rails/alone.rb].map { |name| File.join(LIB, name) }
    files = required(File.join(ROOT, "lib/neverblock.rb")) - doors
    refute_empty files
    assert_empty files.map { |file| room(file) } & %i[rails cli legacy]
  end

  # A program with `ruby -w` hears of its own mistakes only.
  def test_ruby_warns_of_no_file
    verbose, $VERBOSE = $VERBOSE, true
    _, warnings = capture_io do
      Dir["#{ROOT}/lib/**/*.rb"].each { |file| RubyVM::InstructionSequence.compile_file(file) }
    end
    assert_empty warnings
  ensure
    $VERBOSE = verbose
  end

  def test_only_native_rb_loads_the_shared_object
    loads = %r{require.*neverblock(\.so|/neverblock"|/\#\{)}
    loaders = Dir["#{LIB}/**/*.rb"].select { |path| File.read(path).match?(loads) }
    assert_equal [File.join(LIB, "native.rb")], loaders
  end

  def test_the_page_names_every_room
    page = File.read(File.join(ROOT, "docs/ARCHITECTURE.md"), encoding: "UTF-8")
    (ROOMS.keys.map(&:to_s) - ["base"] + C_MAY_USE.keys).each do |room|
      assert_match(/\b#{room}\b/, page)
    end
  end

  def test_the_page_names_every_file_and_no_other
    files = Dir["#{EXT}/{*.{c,rb},*/*.{c,h}}", "#{LIB}/**/*.rb"].map { |path| path.delete_prefix("#{ROOT}/") }
    assert_empty files - named_files, "they are not in the tree"
    assert_empty named_files - files, "they are in the tree only"
  end

  private

  NAMES = %r{((?:\w+/)*)(\w+|\{[\w,]+\})\.(rb|h|c|\{h,c\})(?!\w)}

  # What the tree of the page names of ext/neverblock and lib/neverblock.
  def named_files
    page = File.read(File.join(ROOT, "docs/ARCHITECTURE.md"), encoding: "UTF-8")
    top = folder = nil
    page[%r{^neverblock/\n.*?^```}m].lines.flat_map do |line|
      top = line[%r{^[├└]── ((?:ext|lib)/neverblock)/}, 1] if line.match?(/^[├└]/)
      folder = line[%r{[├└]── (\w+/)}, 1] if line.match?(/^│? *[├└]/)
      top ? line.scan(NAMES).flat_map { |below, *parts| spelled_out("#{top}/#{folder}#{below}", *parts) } : []
    end
  end

  def spelled_out(folder, names, types)
    names, types = [names, types].map { |list| list.delete("{}").split(",") }
    names.product(types).map { |name, type| "#{folder}#{name}.#{type}" }
  end

  def room(path)
    return :surface if path == "#{LIB}.rb"

    name = path.delete_prefix("#{LIB}/").delete_suffix(".rb")
    ROOMS.keys.find { |key| ROOMS[key].any? { |glob| File.fnmatch?(glob, name) } } ||
      flunk("#{name}.rb is in no room: see docs/ARCHITECTURE.md")
  end

  def c_room(path)
    folder = path.delete_prefix("#{EXT}/").split("/").first
    C_MAY_USE.key?(folder) ? folder : flunk("#{path} is in no room: see docs/ARCHITECTURE.md")
  end

  # What a file requires of the project, by either form.
  def required(path)
    File.foreach(path).filter_map do |line|
      next if line.match?(%r{"#\{|neverblock/neverblock"}) # the shared object

      if (target = line[/^\s*require_relative "(.+)"/, 1])
        File.expand_path("#{target}.rb", File.dirname(path))
      elsif (target = line[%r{^\s*(?:require|autoload :\w+,) "neverblock/(.+)"}, 1])
        File.join(LIB, "#{target}.rb")
      end
    end
  end

  def included(path)
    files = File.foreach(path).filter_map { |line| line[/^\s*#\s*include "(.+)"/, 1] }
    folders = [EXT, File.dirname(path)]
    files.filter_map do |file|
      folders.map { |folder| File.expand_path(file, folder) }.find { |found| File.file?(found) }
    end
  end

  DEFINITION = /^(?!static\b|typedef\b)[a-zA-Z][\w *]*\b(\w*nb_\w+)\([^;{}]*\)\s*\{/

  # Name of a file => names of those whose functions it uses.
  def uses_in(folder)
    texts = Dir["#{folder}*.c"].to_h { |path| [File.basename(path, ".c"), without_comments(path)] }
    homes = texts.flat_map { |name, text| text.scan(DEFINITION).map { |(function)| [function, name] } }.to_h
    texts.to_h { |name, text| [name, homes.values_at(*text.scan(/\w*nb_\w+/)).compact.uniq - [name]] }
  end

  # A file that names others by autoload is a door to them. It uses none until somebody names one.
  DOOR = /^\s*autoload /

  # File => those that it requires, or whose constant it names: that of the file's own name.
  def ruby_uses(files)
    texts = files.to_h { |path| [path, File.read(path).gsub(/^\s*#.*/, "")] }
    homes = texts.flat_map { |path, text| own_constants(path, text).map { |name| [name, path] } }.to_h
    texts.to_h do |path, text|
      named = text.gsub(/^\s*(?:class|module) [\w:]+|"[^"\n]*"/, "").scan(/(?<!:)\b[A-Z]\w+(?:::\w+)*/)
      parts = named.flat_map { |name| name.sub(/\ANB::\w+(::|\z)/, "").split("::") } # NB::X is of any room
      found = homes.values_at(*parts) + (required(path) & files)
      [path, text.match?(DOOR) ? [] : found.compact.uniq - [path]]
    end
  end

  # C defines Scheduler; Ruby reopens it. The file named like a folder is the namespace of its parts.
  def own_constants(path, text)
    return [] if path.end_with?("/loop/scheduler.rb") || File.directory?(path.delete_suffix(".rb"))

    name = File.basename(path, ".rb").delete("_")
    text.scan(/^\s*(?:class|module) ([A-Z]\w*)/).flatten.select { |constant| constant.downcase == name }
  end

  def pure?(path) = File.open(path, &:readline).include?("Pure C")
  def without_comments(path) = File.read(path).gsub(%r{/\*.*?\*/}m, "").gsub(%r{//.*}, "")
end
# rubocop:enable Layout/LineLength
