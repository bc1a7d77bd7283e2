# frozen_string_literal: true

require "open3"
require "tmpdir"

# A terminal of a real terminal emulator, tmux, with a shell in it. Its server belongs to one test.
class Tmux
  # @return [Boolean]
  def self.there? = system("tmux", "-V", out: File::NULL, err: File::NULL)

  # @param columns [Integer]
  # @param rows [Integer]
  # @param env [Hash{String=>String}] of the shell, beside the test's own
  def initialize(columns: 80, rows: 24, env: {})
    @dir = Dir.mktmpdir("nb-tmux")
    @columns = columns
    variables = {"PS1" => "ready> ", "HISTFILE" => "", **env}
                .flat_map { |pair| ["-e", pair.join("=")] }
    tmux("-f", File::NULL, "new-session", "-d", "-x", columns.to_s, "-y", rows.to_s, *variables,
      "bash", "--norc", "--noprofile")
    tmux("set", "-g", "window-size", "manual")
  end

  # @param words [Array<String>] as tmux's send-keys: names of keys, or text
  def press(*words) = tmux("send-keys", *words)

  # @return [String] what is to be seen now
  def screen = tmux("capture-pane", "-p")

  # @return [Array<String>] its lines, as they stand there
  def lines = screen.lines(chomp: true)

  # @return [Boolean] whether the cursor is to be seen, and the other screen is left
  def usual? = tmux("display", "-p", '#{cursor_flag}#{alternate_on}').strip == "10"

  def resize(columns, rows) = tmux("resize-window", "-x", columns.to_s, "-y", rows.to_s)

  def close
    tmux("kill-server")
    FileUtils.rm_rf(@dir)
  end

  private

  def tmux(*words)
    out, status = Open3.capture2e({"TMUX" => nil}, "tmux", "-S", "#{@dir}/tmux", *words)
    raise "tmux #{words.join(" ")}: #{out}" unless status.success? || words == ["kill-server"]

    out
  end
end
