# frozen_string_literal: true

# Ten tasks with async. Run: ruby examples/side_by_side/async.rb TASK PORT

require "socket"
require "async"
require "async/barrier"
require "async/semaphore"

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
  puts ["a 60", "b 40", "c 20"].map { |words| Async { ask(words) } }.map(&:wait).join(" ")
end

# task: limit
def limit
  semaphore = Async::Semaphore.new(5)
  answers = (1..20).map { |number| semaphore.async { ask("#{number} 20") } }.map(&:wait)
  puts answers.size
end

# task: group
def group
  Barrier do |barrier|
    barrier.async { ask("a 50000") }
    barrier.async(finished: false) { ask("b 20 no") }
  end
rescue IOError => error
  puts error.message
end

# task: timeout
def timeout
  Async::Task.current.with_timeout(0.2) do
    Barrier do |barrier|
      barrier.async { ask("a 50000") }
      barrier.async { ask("b 50000") }
    end
  end
rescue Async::TimeoutError
  puts "late"
end

# task: settle
def settle
  tasks = ["a 20", "b 20 no", "c 20"].map do |words|
    Async do
      ask(words)
    rescue IOError => error
      error
    end
  end
  outcomes = tasks.map(&:wait)
  puts outcomes.map { |one| one.is_a?(IOError) ? one.message : one }.join(" ")
end

# task: rate
def rate
  tasks = (1..8).map do |number|
    sleep(0.25)
    Async { ask("#{number} 500") }
  end
  puts tasks.map(&:wait).size
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
  task = Async do |inner|
    inner.defer_cancel { ask("a 100") && ask("b 100") }
    ask("c 100")
  end
  sleep(0.05)
  task.cancel
  task.wait
  puts task.cancelled?
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
  signals = Thread::Queue.new
  %i[INT TERM].each { |signal| trap(signal) { signals << signal } }
  tasks = []
  tasks << Async { puts ask("a 300") } until signals.pop(timeout: 0.05)
  Async { tasks.each(&:wait) && signals << nil }
  signals.pop(timeout: 5)
ensure
  tasks.each(&:cancel)
end

# the end
Sync { send(ARGV[0].sub("retry", "retry_it")) }
