# frozen_string_literal: true

require_relative "../support/contract"

# Regular files: always ready, never waited for by poll; and the calls that can wait: flock.
class RegularFileTest < Contract
  contract "write, read, gets, seek and each_line" do
    temporary do |path|
      File.open(path, "w+") do |file|
        assert_equal 12, file.write("one\ntwo\nfour")
        file.rewind
        assert_equal "one\n", file.gets
        assert_equal "tw", file.read(2)
        assert_equal %W[o\n four], file.each_line.to_a
        assert_predicate file, :eof?
        file.seek(4)
        assert_equal "two\nfour", file.read
        assert_nil file.gets
        assert_nil file.read(1)
      end
    end
  end

  # Nothing ends write(2) of a file, and nothing of it comes behind what the program does next.
  contract "an interrupted write has ended", gap: nil do
    temporary do |path|
      File.open(path, "w") do |file|
        file.sync = true
        bytes = "A" * 20_000_000
        10.times do |i|
          Timeout.timeout(0.001 * i) { file.write(bytes) } if i.positive?
        rescue Timeout::Error
          size = File.size(path)
          file.rewind
          sleep 0.02
          assert_equal size, File.size(path)
          assert_equal 0, file.pos
          file.truncate(0)
        end
      end
    end
  end

  [true, false].each do |sync|
    same_as_threads "what is written before a string that the encoding has not, sync #{sync}" do
      temporary do |path|
        File.open(path, "w:ISO-8859-1") do |file|
          file.sync = sync
          failed = outcome { file.write("one", :two, "\u65e5", "three") }
          [failed, file.write("e", "\u00e9"), outcome { file.puts("four", "\u65e5") }].push(
            file.tap(&:flush).then { File.binread(path) }
          )
        end
      end
    end
  end

  CHDIRS = {
    "chdir" => ->(path, &block) { Dir.chdir(path, &block) },
    "fchdir" => ->(path, &block) { Dir.open(path) { |to| Dir.fchdir(to.fileno, &block) } },
    "Dir#chdir" => ->(path, &block) { Dir.open(path) { |to| to.chdir(&block) } }
  }.freeze

  CHDIRS.each do |name, change|
    same_as_threads "#{name} while another is in its directory",
                    ruby: name == "chdir" ? ">= 3.1" : ">= 3.3" do
      within = Thread::Queue.new
      here = Dir.pwd
      Dir.mktmpdir("nb") do |directory|
        other = parked { change.call(directory) { [within.pop, Dir.pwd == directory] } }
        sleep 0.001 until within.num_waiting.positive? # before, a thread may still open it
        tried = outcome { Dir.chdir("/") { Dir.pwd } }
        tried_without = outcome { Dir.chdir("/") }
        within << "in"
        nested = -> { Dir.chdir(directory) { Dir.chdir("/") { Dir.pwd } } }
        [tried, tried_without, other.value, Dir.pwd == here, nested.call]
      end
    end
  end

  contract "pread and pwrite do not move the position" do
    temporary do |path|
      File.open(path, "w+") do |file|
        file.syswrite("0123456789")
        assert_equal "345", file.pread(3, 3)
        assert_equal 2, file.pwrite("ab", 4)
        assert_equal "0123ab6789", file.pread(10, 0)
        assert_equal 10, file.sysseek(0, IO::SEEK_CUR)
        assert_raises(EOFError) { file.pread(1, 10) }
        assert_equal "9", file.pread(5, 9)
      end
    end
  end

  contract "File.read, File.write, IO.readlines, append and truncate" do
    temporary do |path|
      assert_equal 6, File.write(path, "one\ntw")
      File.open(path, "a") { |file| file << "o\n" }
      assert_equal %W[one\n two\n], File.readlines(path)
      assert_equal "one\ntwo\n", File.read(path)
      assert_equal "two\n", File.read(path, 100, 4)
      File.truncate(path, 3)
      assert_equal "one", File.binread(path)
      assert_equal %w[one], File.foreach(path).to_a
    end
  end

  contract "readpartial, sysread, read_nonblock and readbyte of a file" do
    temporary do |path|
      File.write(path, "abcdef")
      File.open(path) do |file|
        assert_equal "ab", file.sysread(2)
        assert_equal "cd", file.readpartial(2)
        assert_equal "e", file.read_nonblock(1)
        assert_equal 102, file.readbyte
        assert_raises(EOFError) { file.readpartial(1) }
        assert_nil file.read_nonblock(1, exception: false)
      end
    end
  end

  contract "a file is always ready" do
    temporary do |path|
      File.open(path, "w+") do |file|
        assert(polled { file.wait_readable(0) })
        assert file.wait_readable(1)
        assert file.wait_writable(1)
        assert_equal [[file], [file], []], IO.select([file], [file], [], 1)
      end
    end
  end

  contract "/dev/null and /dev/zero" do
    File.open(File::NULL, "r+") do |null|
      assert_nil null.read(1)
      assert_equal 3, null.write("abc")
      assert null.wait_writable(1)
    end
    assert_equal "\0\0", File.open("/dev/zero") { |zero| zero.readpartial(2) }
  end

  contract "a large file in parts", gap: 0.060 do
    bytes = Random.new(2).bytes(8_000_000)
    temporary do |path|
      File.binwrite(path, bytes)
      read = File.open(path, "rb") do |file|
        parts = []
        while (part = file.read(100_000))
          parts << part
        end
        parts.join
      end
      assert_equal bytes.hash, read.hash
    end
  end

  contract "errors as in blocking Ruby" do
    assert_raises(Errno::ENOENT) { File.open("/nonexistent/file") }
    assert_raises(Errno::EISDIR) { File.open("/tmp") { |directory| directory.read(1) } }
    assert_raises(IOError) { File.open(File::NULL, "r") { |null| null.write("x") } }
    assert_raises(IOError) { File.open(File::NULL, "w") { |null| null.read(1) } }
    assert_raises(Errno::ENOSPC) { File.open("/dev/full", "w") { |full| full.syswrite("x") } }
  end

  contract "stat, rename, unlink, mkdir and directory listings" do
    Dir.mktmpdir("nb") do |directory|
      one, two = %w[one two].map { |name| File.join(directory, name) }
      File.write(one, "x")
      assert_equal 1, File.stat(one).size
      File.rename(one, two)
      assert_equal %w[two], Dir.children(directory)
      assert_equal 1, File.unlink(two)
      Dir.mkdir(one)
      assert File.directory?(one)
      assert_equal [one], Dir.glob("#{directory}/*")
    end
  end

  # Ruby 3.1 has no hook for it: there the loop stands still as long as the lock is taken. That is
  # longer than starting the child may take.
  contract "flock waits for the holder to let go", gap: (RUBY_VERSION < "3.4" ? nil : 0.2) do
    temporary do |path|
      held_by_child(path) do |release|
        File.open(path) do |file|
          refute file.flock(File::LOCK_EX | File::LOCK_NB)
          release.call(after: 0.3)
          assert_equal 0, file.flock(File::LOCK_EX)
        end
      end
    end
  end

  contract "flock ends when another strand closes the file", gap: nil do
    temporary do |path|
      holder, file = keep(File.open(path, "w"), File.open(path, "w"))
      holder.flock(File::LOCK_EX)
      waiting = parked { file.flock(File::LOCK_EX) }
      file.close
      error = waiting.failure
      assert_equal [IOError, "stream closed in another thread"], [error.class, error.message]
    end
  end

  contract "fsync and fdatasync", gap: nil do
    temporary do |path|
      File.open(path, "w") do |file|
        file.write("x")
        assert_equal [0, 0], [file.fsync, file.fdatasync]
      end
    end
  end

  contract "many fibers write one file in append mode", gap: 0.040 do
    temporary do |path|
      writers = Array.new(20) { |i| strand { File.open(path, "a") { |file| 10.times {
 file.puts(i) } } } }
      writers.each(&:value)
      assert_equal 200, File.readlines(path).size
    end
  end

  def temporary
    path = File.join(Dir.tmpdir, "nb-#{Process.pid}-#{clock}")
    yield path
  ensure
    File.unlink(path) if File.exist?(path)
  end

  # A child holds the lock and lets go when told.
  def held_by_child(path)
    script = 'f = File.open(ARGV[0]); f.flock(File::LOCK_EX); puts "held"; sleep $stdin.gets.to_f'
    File.write(path, "")
    IO.popen([RbConfig.ruby, "--disable-gems", "-e", "$stdout.sync = true; #{script}", path],
"r+") do |child|
      child.gets
      yield ->(after:) { child.puts(after) }
    end
  end
end
