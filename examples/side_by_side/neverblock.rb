# frozen_string_literal: true

# Ten tasks with NeverBlock. Run: ruby -Ilib examples/side_by_side/neverblock.rb TASK PORT

require "socket"
require "neverblock"

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
  puts NB.gather(*["a 60", "b 40", "c 20"].map { |words| -> { ask(words) } }).join(" ")
end

# task: limit
def limit
  answers = NB.map(1..20, concurrency: 5) { |number| ask("#{number} 20") }
  puts answers.size
end

# task: group
def group
  NB.group do |group|
    group.async { ask("a 50000") }
    group.async { ask("b 20 no") }
  end
rescue IOError => error
  puts error.message
end

# task: timeout
def timeout
  NB.timeout(0.2) { NB.gather(-> { ask("a 50000") }, -> { ask("b 50000") }) }
rescue Timeout::Error
  puts "late"
end

# task: settle
def settle
  outcomes = NB.settle(*["a 20", "b 20 no", "c 20"].map { |words| -> { ask(words) } })
  puts outcomes.map { |outcome| outcome.ok? ? outcome.value : outcome.error.message }.join(" ")
end

# task: rate
def rate
  limiter = NB::Limiter.new(1, per: 0.25)
  puts NB.map(1..8, concurrency: 8) { |number| limiter.with { ask("#{number} 500") } }.size
end

# task: retry
def retry_it
  puts NB.retry(times: 5, wait: 0.05) { ask("a 10 third") }
end

# task: shield
def shield
  task = NB.async do
    NB.shield { ask("a 100") && ask("b 100") }
    ask("c 100")
  end
  sleep(0.05)
  puts task.cancel.wait.cancelled?
end

# task: compute
def compute
  numbers = [27, 26, 25, 24]
  puts NB.gather(*numbers.map { |number| -> { NB.in_process { fib(number) } } }).join(" ")
end

# task: stop
def stop
  NB.run(on_interrupt: :drain, drain_timeout: 5) do
    while NB.until_stop { sleep(0.05) }
      NB.async { puts ask("a 300") }
    end
  end
end

# the end
ARGV[0] == "stop" ? stop : NB.run { send(ARGV[0].sub("retry", "retry_it")) }
