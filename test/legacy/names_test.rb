# frozen_string_literal: true

require "minitest/autorun"
require "neverblock"
require "tempfile"
require_relative "../support/subprocess"

# The names of 2008 after a plain `require "neverblock"`, and what each old door adds.
class LegacyNamesTest < Minitest::Test
  PATCHED = "[Fiber.method_defined?(:[]), NB::FiberPool.equal?(NB::Pool::FiberPool)]"

  def test_all_names_are_there
    %w[NeverBlock NB::FiberPool NB::Pool::FiberPool NB::Pool::FiberedConnectionPool NB::DB NB::Fiber
       NB::DB::PooledDBConnection NB::NBError].each { |name| assert Object.const_get(name), name }
    %i[neverblock neverblocking? event_loop_available? reactor wait sleep yield defer]
      .each { |name| assert_respond_to NB, name }
    assert_same NB, NeverBlock
    assert_includes NB::NBError.ancestors, NB::Error
    assert_raises(NameError) { NB::NoSuchName }
  end

  def test_the_databases_go_by_their_old_names
    require "pg"
    require "mysql2"
    assert_operator NB::DB::FPGconn, :<, PG::Connection
    assert_same NB::DB::FPGconn, NB::DB::FPGConn
    assert_same NB::DB::FPGconn, NB::DB::FiberedPostgresConnection
    assert_operator NB::DB::FMysql, :<, Mysql2::Client
    assert_same NB::DB::FMysql, NB::DB::FiberedMysqlConnection
  end

  def test_a_plain_require_loads_none_of_it_and_patches_nothing
    script = "p $LOADED_FEATURES.grep(%r{/neverblock/legacy/}).map { File.basename(_1) }, " \
             "Fiber.method_defined?(:[]), NB.const_defined?(:Fiber, false)"
    assert_equal "[\"names.rb\"]\nfalse\nfalse\n", run_plain(script, "neverblock")
  end

  %w[never_block neverblock_io neverblock-io neverblock-pg neverblock-mysql never_block/fiber_pool
     never_block/fibered_connection_pool never_block/system never_block/server/thin
     never_block/servers/thin].each do |door|
    define_method("test_the_door_#{door}_opens") do
      assert_equal "[true, true]\n", run_plain("p #{PATCHED}", door)
    end
  end

  def test_the_doors_of_the_first_article_give_names_without_a_module
    script = "p FiberPool.new(2).fibers.size, FiberedConnectionPool.new(size: 3) { 1 }.size"
    doors = %w[never_block/fiber_pool never_block/fibered_connection_pool]
    assert_equal "2\n3\n", run_plain(script, *doors)
  end

  def test_with_an_old_door_any_fiber_has_locals_and_the_pool_of_old_works_in_the_new
    script = <<~RUBY
      Fiber.current[:a] = 1
      p Fiber.current[:a], Fiber.new { nil }[:a]
      NB::FiberPool.new(2).spawn { p NB.neverblocking? }
      NB.run { p NB::FiberPool.new(2, queue: 1).spawn { sleep 0.01 }.wait.stats }
    RUBY
    expected = RUBY_VERSION < "3.4" ? "{:size=>2, " : "{size: 2, "
    lines = run_plain(script, "never_block").lines
    assert_equal %W[1\n nil\n true\n], lines.first(3)
    assert lines.last.start_with?(expected)
  end

  # --- methods ----------------------------------------------------------------------------------

  def test_neverblocking_tells_whether_a_wait_lets_others_run
    flags = [NB.neverblocking?, NB.event_loop_available?]
    NB.run do
      flags << NB.neverblocking? << NB.event_loop_available? << NB.blocking { NB.neverblocking? }
      flags << NB.async { NB.neverblocking? }.value
    end
    flags << Fiber.new { NB.neverblocking? }.resume << NB::Fiber.new { NB.neverblocking? }.resume
    flags << NB::Fiber.new(false) { NB.neverblocking? }.resume
    assert_equal [false, false, true, true, false, true, false, true, false], flags
  end

  def test_neverblock_is_for_the_block_only_whatever_it_does
    NB.run do
      assert_equal false, NB.neverblock(false) { NB.neverblocking? }
      assert_raises(RuntimeError) { NB.neverblock(false) { raise "no" } }
      assert_predicate NB, :neverblocking?
      assert_equal :value, NB.neverblock(false) { NB.neverblock { sleep(0.001) && :value } }
    end
    assert_equal :plain, NB.neverblock { :plain }
  end

  def test_neverblock_inside_a_blocking_block_lets_others_run_again
    NB.run do
      order = []
      NB.async { sleep(0.01) && order << :other }
      NB.neverblock(false) do
        sleep 0.02
        order << :blocking
        NB.neverblock { sleep 0.01 }
        order << :after
      end
      assert_equal %i[blocking other after], order
    end
  end

  def test_wait_sleep_and_yield_let_others_run
    NB.run do
      reader, writer = IO.pipe
      order = []
      NB.async { NB.sleep(0.02) && writer.write("x") && order << :written }
      assert_same writer, NB.wait(:write, writer)
      assert_same reader, NB.wait(:read, reader)
      NB.async { order << :other }
      [0, -1].each { |seconds| NB.sleep(seconds) }
      NB.yield
      assert_equal %i[written other], order
      assert_raises(ArgumentError) { NB.wait(:error, reader) }
      sleeper = NB.async { NB.sleep }
      assert_raises(NB::TaskCancelledError) { sleeper.cancel.value }
    end
  end

  def test_defer_calls_a_method_on_a_thread
    Tempfile.create("nb") do |file|
      file.write("four")
      file.rewind
      NB.run do
        assert_equal "fo", NB.defer(file, :read, [2])
        assert_equal "ur", NB.defer(file, :read)
        assert_raises(NoMethodError) { NB.defer(file, :no_such_method) }
      end
    end
  end

  # --- NB::Fiber --------------------------------------------------------------------------------

  def test_a_fiber_has_locals
    fiber = NB::Fiber.new { Fiber.current[:inside] = 2 }
    fiber[:key] = "value"
    assert_equal ["value", nil, true], [fiber[:key], fiber[:other], fiber[:neverblock]]
    fiber.resume
    assert_equal 2, fiber[:inside]
  end

  def test_yield_returns_what_it_is_resumed_with_and_raises_an_exception
    fiber = NB::Fiber.new do
      raise "the wrong value" unless NB::Fiber.yield(:first) == :second

      begin
        NB::Fiber.yield
      rescue Timeout::Error => error
        error.message
      end
    end
    assert_equal :first, fiber.resume
    fiber.resume(:second)
    assert_equal "late", fiber.resume(Timeout::Error.new("late"))
  end

  def test_once_it_is_loaded_our_own_code_still_means_rubys_fibers
    NB::Fiber.new { nil }
    assert_equal :value, NB.run { NB.blocking { :value } }
    assert_equal [1, 4], NB.run { NB.map([1, 2], concurrency: 2) { |i| sleep(0.001) && i * i } }
  end

  private

  def run_plain(script, *doors)
    options = doors.flat_map { |door| ["-r", door] }
    result = Subprocess.ruby(script, loaded: false, options: options, limit: 30)
    assert_empty result.err
    result.out
  end
end
