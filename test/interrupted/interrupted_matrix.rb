# frozen_string_literal: true

# rubocop:disable Layout/LineLength, Style/MultilineBlockChain -- a statement or an expectation each

require "json"
require "timeout"
require "support/databases"
require "support/holding_proxy"
require_relative "libraries"

# Interrupts each kind of statement, in each library, in each way, while a proxy holds exactly that
# statement; then compares what the application was told with what the database holds, and asks the
# next borrower of the connection.
#
# In fibers of a loop, or in plain threads without NeverBlock: what the libraries do by themselves.
class InterruptedMatrix
  # An error of the application's, which libraries rescue and translate as they do any.
  class Late < StandardError
  end

  # As a cancel is: not to be rescued by the way.
  class Stop < Exception # rubocop:disable Lint/InheritException
  end

  LIMIT = 30 # seconds

  # A cell took so long that something waits forever.
  class Hung < Exception # rubocop:disable Lint/InheritException
  end

  # The message that is held; cell numbers come before the row's in each INSERT.
  STATEMENTS = {
    begin: /BEGIN|START TRANSACTION|(?<!un)watch/i, write: /\(\d+, 1\)/, query: /SELECT 41|GET\r/i,
    prepared: /SELECT 40/, savepoint: /(?<!RELEASE )(?<!TO )SAVEPOINT/, release: /RELEASE SAVEPOINT/,
    commit: /COMMIT|EXEC/, rollback: /ROLLBACK(?! TO)|UNWATCH/i,
    copy: /COPY "?interrupted/, copied: /\d\t3\n/, pipeline: /\(\d+, 4\)/
  }.freeze
  # Rescued in the middle of the transaction, or around it.
  INSIDE = %i[timeout_inside error_inside].freeze
  WAYS = [*INSIDE, :timeout_outside, :error_outside, :nb_timeout, :cancel, :gone, :cut, :killed, :restarted].freeze
  # What happens to connections: by the network, by the server, and to the server.
  LOSSES = %i[cut killed restarted].freeze
  # Those that end a connection from the server's side while the statement is held.
  ENDED = %i[killed restarted].freeze
  # What only NeverBlock has.
  OURS = %i[nb_timeout gone].freeze
  SIDES = %i[request answer].freeze
  # Seconds until a timeout, of the first try and of a second one where the statement was not reached.
  TIMEOUTS = [0.2, 1.0].freeze
  # How much longer the proxy holds a message, so that all that the timeout causes comes meanwhile.
  LONGER = 0.2

  Cell = Struct.new(:client, :statement, :way, :side, :number, :place, :told, :rows, :callbacks, :next, :verdict,
                    :seconds, keyword_init: true) do
    def traits = Libraries::ALL.fetch(client)
    def name = [client, statement, way, side].join(" ")
    def inside? = INSIDE.include?(way)
    def loses? = !%i[kept raised unknown missed].include?(verdict)
    def report = "#{verdict}: #{name}: told #{told}; rows #{rows}; callbacks #{callbacks}; next #{self.next}"
  end

  # @param world [Symbol] :fibers or :threads
  # @param short [Boolean] every fifth cell only
  def initialize(world:, short: false, libraries: Libraries::ALL.keys, ways: WAYS)
    @world = world
    @ways = ways
    @short = short
    @libraries = libraries
    @number = 0
    @lock = Thread::Mutex.new
  end

  # @return [Array<Cell>] with a verdict each: :kept, :raised, :unknown (an interrupted COMMIT),
  #   :missed, :lost, :dirty or :hung
  def run
    Libraries.prepare
    cells = all_cells
    # A server that restarts interrupts whoever uses it.
    alone, beside = cells.partition { |cell| cell.way == :restarted }
    enter do
      try_each(beside, 16)
      try_each(alone, 1)
    end
    cells
  end

  private

  def try_each(cells, strands)
    queue = Thread::Queue.new.tap { |waiting| cells.each { |cell| waiting << cell } }.close
    Array.new(strands) { strand { try_all(queue) } }.each { |one| finish(one) }
  end

  def all_cells
    number = 0
    @libraries.flat_map do |library|
      Libraries::ALL.fetch(library).statements.product(@ways, SIDES).filter_map do |statement, way, side|
        cell = Cell.new(client: library, statement: statement, way: way, side: side)
        cell if sense?(cell) && (!@short || (number += 1) % 5 == 1)
      end
    end
  end

  def sense?(cell)
    return false if OURS.include?(cell.way) && @world == :threads
    return false if cell.inside? && !cell.traits.rescued?(cell.statement)
    return false if cell.way == :cut && cell.side == :answer # it is cut where the request would go out

    cell.traits.server? || !(cell.side == :answer || LOSSES.include?(cell.way))
  end

  def enter(&block) = @world == :fibers ? NB.run(&block) : yield

  def strand(&block)
    return NB.async(&block) if @world == :fibers

    Thread.new(&block).tap { |thread| thread.report_on_exception = false }
  end

  def finish(strand) = @world == :fibers ? strand.value : strand.join

  def try_all(queue)
    while (cell = queue.pop)
      try(cell)
    end
  end

  # The statement may not have been reached in time on a busy machine: then it is no such cell.
  def try(cell)
    TIMEOUTS.each do |seconds|
      cell.seconds = seconds
      cell.number = @lock.synchronize { @number += 1 }
      Timeout.timeout(LIMIT, Hung) { attempt(cell) }
      break unless cell.verdict == :missed
    end
  rescue Hung
    cell.verdict = :hung
  end

  def attempt(cell)
    proxy = Libraries.hold(cell, ENDED.include?(cell.way) ? LIMIT : cell.seconds + LONGER)
    session = Libraries.open(cell, cell.place = proxy.port)
    session.warm_up
    proxy.arm(STATEMENTS.fetch(cell.statement), cell.way == :cut ? :cut : cell.side)
    application = Application.new(cell, session)
    interrupt(cell, proxy, application)
    proxy.settle
    judge(cell, proxy, application)
  ensure
    session&.close
    proxy&.close
  end

  def interrupt(cell, proxy, application)
    return hang_up(proxy, application) if cell.way == :gone

    running = strand { application.run }
    if cell.way == :cancel && proxy.held(5)
      @world == :fibers ? running.cancel : running.raise(Stop)
    end
    end_connection(cell, proxy) if ENDED.include?(cell.way)
    @world == :fibers ? running.wait : running.join
  rescue Stop
    nil # its own
  end

  # It is held until then, so that the port is still this connection's.
  def end_connection(cell, proxy)
    return unless proxy.held(5)

    cell.way == :killed ? Libraries.kill(cell, proxy.held_port) : Libraries.restart(cell)
  ensure
    proxy.release
  end

  # The application runs in a request whose client hangs up.
  def hang_up(proxy, application)
    done = Thread::Queue.new
    server = NB::Server.new(->(_) { page(application, done) }, bind: "tcp://127.0.0.1:0", log: nil, cancel_when_gone: true)
    serving = NB.async { server.run { done << :started } }
    done.pop
    client = TCPSocket.new("127.0.0.1", server.port)
    client.write("GET / HTTP/1.1\r\nHost: matrix\r\n\r\n")
    proxy.held(5)
    client.close
    done.pop
  ensure
    server.stop
    serving.wait
  end

  def page(application, done)
    application.run
    [200, {}, []]
  ensure
    done << :ended
  end

  def judge(cell, proxy, application)
    cell.told = application.told
    cell.rows = Libraries.rows(cell)
    cell.callbacks = application.callbacks
    cell.next = next_borrower(cell, application.session)
    cell.verdict = proxy.held? ? verdict(cell, application) : :missed
  rescue SQLite3::BusyException
    cell.verdict = :dirty # a transaction that nobody ends
  end

  # A server that ends a connection which nobody uses is noticed by the next one, whose query fails;
  # but by no other.
  def next_borrower(cell, session)
    session.next_borrower if ENDED.include?(cell.way) && %i[returned rolled_back].include?(cell.told)
    session.next_borrower
  end

  def verdict(cell, application)
    return :dirty unless cell.next == true

    written = application.written - cell.rows
    strange = cell.rows - application.attempted
    return :lost if strange.any?
    return :lost if lies?(cell)
    return cell.rows.empty? ? :kept : :lost if cell.told == :rolled_back
    return written.empty? ? :kept : :lost if cell.told == :returned
    return :raised if cell.rows.empty?

    cell.traits.uncertain?(cell.statement) && written.empty? ? :unknown : :lost
  end

  # A callback that says the opposite of what is.
  def lies?(cell)
    cell.callbacks == (cell.rows.empty? ? [:commit] : [:rollback])
  end

  # What every library runs: a transaction with a row, a savepoint with another, and a query.
  class Application
    attr_reader :told, :written, :attempted, :callbacks, :session

    def initialize(cell, session)
      @cell = cell
      @session = session
      @written = []
      @attempted = []
      @callbacks = []
      @told = :never_ended
    end

    def run
      @told = around { transaction }
    rescue Exception => error # rubocop:disable Lint/RescueException -- what it is told
      @told = error.class.name
      raise if error.is_a?(Stop) || error.class.name == "NB::Cancelled"
    end

    private

    def around(&block)
      case @cell.way
      when :timeout_outside then Timeout.timeout(@cell.seconds, &block)
      when :error_outside then Timeout.timeout(@cell.seconds, Late, &block)
      when :nb_timeout then NB.timeout(@cell.seconds, &block)
      else yield
      end
    end

    def transaction
      @session.transaction(@callbacks) do
        step(:begin, :write) { write(1) }
        step(:savepoint, :release) { @session.savepoint { write(2) } } if @session.savepoints?
        step(:query) { @session.query }
        special(@cell.statement)
        @cell.statement == :rollback
      end
    end

    # What not all of them know.
    def special(statement)
      case statement
      when :prepared then step(:prepared) { @session.prepared }
      when :copy, :copied then step(:copy, :copied) { attempt(3) { @session.copy(3) } }
      when :pipeline then step(:pipeline) { attempt(4, 5) { @session.pipeline([4, 5]) } }
      end
    end

    def attempt(*rows)
      @attempted.concat(rows)
      yield
    end

    def write(row)
      @attempted << row
      @session.write(row)
    end

    def step(*statements)
      before = @attempted.dup
      statements.include?(@cell.statement) && @cell.inside? ? guard { yield } : yield
      @written.concat(@attempted - before)
    rescue Rescued
      nil # and goes on
    end

    # The block was interrupted, and the application rescued it.
    Rescued = Class.new(StandardError)

    def guard(&block)
      Timeout.timeout(@cell.seconds, *(Late if @cell.way == :error_inside), &block)
    rescue StandardError => error
      late = [error, error.cause].any? { |one| one.is_a?(Late) || one.is_a?(Timeout::Error) || one.is_a?(Timeout::ExitException) }
      raise unless late

      raise Rescued
    end
  end
end
# rubocop:enable Layout/LineLength, Style/MultilineBlockChain
