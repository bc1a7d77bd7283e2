# frozen_string_literal: true

# Ten tasks with threads. Run: ruby examples/side_by_side/threads.rb TASK PORT

require "socket"
require "timeout"

Thread.report_on_exception = false

def ask(words)
  TCPSocket.open("127.0.0.1", ARGV.fetch(1)) do |socket|
    socket.puts(words)
    answer = socket.gets.chomp
    answer == "no" ? raise(IOError, "no") : answer
  end
end

def fib(number) = number < 2 ? number : fib(number - 1) + fib(number - 2)

# task: all
def all
  puts ["a 60", "b 40", "c 20"].map { |words| Thread.new { ask(words) } }.map(&:value).join(" ")
end

# task: limit
def limit
  queue = Queue.new(1..20).close
  threads = Array.new(5) do
    Thread.new do
      answers = []
      while (number = queue.pop)
        answers << ask("#{number} 20")
      end
      answers
    end
  end
  puts threads.flat_map(&:value).size
end

# task: group
def group
  ended = Queue.new
  threads = ["a 50000", "b 20 no"].map do |words|
    Thread.new do
      ask(words)
    ensure
      ended << Thread.current
    end
  end
  threads.size.times { ended.pop.value }
rescue IOError => error
  puts error.message
ensure
  threads.each(&:kill).each { |thread| thread.join rescue nil }
end

# task: timeout
def timeout
  threads = ["a 50000", "b 50000"].map { |words| Thread.new { ask(words) } }
  Timeout.timeout(0.2) { threads.each(&:join) }
rescue Timeout::Error
  puts "late"
ensure
  threads.each(&:kill).each(&:join)
end

# task: settle
def settle
  threads = ["a 20", "b 20 no", "c 20"].map do |words|
    Thread.new do
      ask(words)
    rescue IOError => error
      error
    end
  end
  outcomes = threads.map(&:value)
  puts outcomes.map { |one| one.is_a?(IOError) ? one.message : one }.join(" ")
end

# task: rate
def rate
  turns = SizedQueue.new(1)
  ticker = Thread.new { loop { turns << true && sleep(0.25) } }
  threads = (1..8).map { |number| Thread.new { turns.pop && ask("#{number} 500") } }
  puts threads.map(&:value).size
  ticker.kill
end

# task: retry
def retry_it
  attempt = 0
  begin
    attempt += 1
    puts ask("a 10 third")
  rescue IOError
    raise if attempt == 5

    sleep(0.05 * (2**(attempt - 1)) * (1 - (rand / 2)))
    retry
  end
end

# task: shield
def shield
  cancel = Class.new(StandardError)
  thread = Thread.new do
    Thread.handle_interrupt(cancel => :never) { ask("a 100") && ask("b 100") }
    ask("c 100")
  end
  sleep(0.05)
  thread.raise(cancel)
  thread.join
rescue cancel
  puts true
end

# task: compute
def compute
  pipes = [27, 26, 25, 24].map do |number|
    IO.popen("-") || (puts(fib(number)) || exit!)
  end
  puts pipes.map { |pipe| pipe.read.chomp }.join(" ")
ensure
  pipes.each(&:close)
end

# task: stop
def stop
  signals = Queue.new
  %i[INT TERM].each { |signal| trap(signal) { signals << signal } }
  threads = []
  threads << Thread.new { puts ask("a 300") } until signals.pop(timeout: 0.05)
  ended = Thread.new { threads.each(&:join) && signals << nil }
  signals.pop(timeout: 5)
ensure
  [ended, *threads].each(&:kill).each(&:join)
end

# the end
send(ARGV[0].sub("retry", "retry_it"))
