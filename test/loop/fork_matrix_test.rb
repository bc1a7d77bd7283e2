# frozen_string_literal: true

require "minitest/autorun"
require "neverblock"
require_relative "../support/subprocess"

# The short form of `rake matrix:fork`.
class ForkMatrixTest < Minitest::Test
  PROGRAM = File.expand_path("../matrix/fork.rb", __dir__)

  %w[run server].product(NB::Native.backends) do |place, backend|
    define_method("test_nothing_crosses_a_fork_in_#{place}_by_#{backend}") do
      command = [RbConfig.ruby, "-W0", "-I", Subprocess::LIB, PROGRAM, place]
      command += %w[exit exec gc in_process]
      result = Subprocess.run({"NB_BACKEND" => backend}, command, 60)

      assert_equal ["#{place}: 4 endings, nothing crossed\n", true],
        [result.out, result.status.success?], result.err
    end
  end
end
