# frozen_string_literal: true

# rubocop:disable Layout/LineLength -- a statement or an expectation each, better on one line

require "rails/helper"
require "websocket/driver"
require_relative "../support/patience"
require_relative "../support/timing"
require_relative "../support/ports"

# The application under `rails server -u neverblock`, and under Puma with the plugin.
class RailsServerTest < Minitest::Test
  include Patience

  COMMANDS = { "neverblock" => %w[-u neverblock], "puma" => %w[-u puma] }.freeze

  COMMANDS.each_key do |name|
    define_method("test_everything_under_#{name}") do
      with_server(name, adapter: "neverblock_postgresql", env: { "APP_REDIS" => Databases.redis.url }) do
        check_that_requests_overlap
        check_file
        check_stream
        check_live
        check_upload
        check_together
        check_cable
      end
    end
  end

  def test_cable_without_redis
    with_server("neverblock", adapter: "neverblock_sqlite3") { check_cable }
  end

  # rack-timeout raises on the thread, which every request shares.
  def test_rack_timeout_ends_the_request_that_is_late_and_no_other
    with_server("neverblock", adapter: "neverblock_postgresql", env: { "APP_TIMEOUT" => "3" }) do
      late = Array.new(3) { Thread.new { get("/slow?seconds=20").code } }
      others = Array.new(8) { |i| Thread.new { 10.times.map { get("/slow?seconds=0.0#{i + 1}").code } } }
      assert_equal ["500"] * 3, late.map(&:value)
      assert_equal ["200"] * 80, others.flat_map(&:value)
    end
  end

  # Under Puma nothing ends a page that takes its time.
  def test_request_timeout_is_off_unless_it_is_set_and_then_answers_503
    load_application
    RailsApp.serve { |_, server| assert_nil server.options[:request_timeout] }
    RailsApp.serve(request_timeout: 0.3) do |port, server|
      assert_in_delta 0.3, server.options[:request_timeout]
      assert_equal "503", Net::HTTP.get_response(URI("http://127.0.0.1:#{port}/slow?seconds=20")).code
    end
  end

  # As docs/OBSERVE.md has it.
  def test_each_request_can_be_a_notification
    load_application
    told = Thread::Queue.new
    subscriber = ActiveSupport::Notifications.subscribe("request.neverblock") { |event| told << event.payload }
    observer = ->(request) { ActiveSupport::Notifications.instrument("request.neverblock", request) }
    RailsApp.serve(on_request: observer) do |port|
      paths = Array.new(5) { |index| "/slow?seconds=0.0#{index}" }
      paths.map { |path| Thread.new { Net::HTTP.get(URI("http://127.0.0.1:#{port}#{path}")) } }.each(&:join)
      requests = Array.new(5) { Timeout.timeout(20) { told.pop } }
      assert_equal [["GET", "/slow", 200]] * 5, (requests.map { |request| request.values_at(:method, :path, :status) })
      assert_operator requests.map { |request| request[:seconds] }.max, :>=, 0.04
    end
  ensure
    ActiveSupport::Notifications.unsubscribe(subscriber) if subscriber
  end

  def test_a_client_that_has_gone_rolls_its_transaction_back
    load_application
    Account.insert_all!([{ id: 1, balance: 10 }, { id: 2, balance: 10 }])
    RailsApp.serve(cancel_when_gone: true) do |port|
      socket = TCPSocket.new("127.0.0.1", port)
      socket.write("GET /transfer?seconds=30 HTTP/1.1\r\nHost: a\r\n\r\n")
      eventually { Account.connection_pool.stat[:busy] == 1 }
      socket.close
      eventually { Account.connection_pool.stat[:busy].zero? }
    end
    assert_equal [10, 10], Account.order(:id).pluck(:balance)
  end

  private

  # Into this process. Migrates before it makes its own table, which the servers' would meet.
  def load_application
    prepare(RailsApp.environment("neverblock_postgresql"))
    RailsApp.load("neverblock_postgresql")
  end

  # Ten requests of 0.5 s each on one thread.
  def check_that_requests_overlap
    get("/slow?seconds=0")
    start = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    bodies = Array.new(10) { Thread.new { get("/slow?seconds=0.5").body } }.map(&:value)
    assert_equal ["slow"] * 10, bodies
    assert_in_time Process.clock_gettime(Process::CLOCK_MONOTONIC) - start, 3
  end

  def check_file
    assert_equal File.read("#{RailsApp::ROOT}/config.ru"), get("/file").body
  end

  def check_stream
    assert_equal "part 0\npart 1\npart 2\n", get("/stream").body
  end

  # Live runs in a fiber of the request's thread, and sees what the request has set.
  def check_live
    events = get("/live?person=mary").body.scan(/^data: (.+)$/).map { |(json)| JSON.parse(json) }
    assert_equal [0, 1, 2], events.map { |event| event["i"] }
    assert_equal ["mary"], events.map { |event| event["person"] }.uniq
    threads = Array.new(3) { get("/live").body[/"thread":(\d+)/, 1] }
    assert_equal 1, threads.uniq.size, "not one thread: #{threads}"
  end

  def check_upload
    data = Random.new(1).bytes(300_000)
    request = Net::HTTP::Post.new("/upload")
    request.set_form([["file", StringIO.new(data), { filename: "a.bin" }]], "multipart/form-data")
    path = Net::HTTP.start("127.0.0.1", @port) { |http| http.request(request) }.body
    assert_match(%r{\A/rails/active_storage/blobs/proxy/}, path)
    assert_equal data, get(path).body
    check_part_of(path.sub("/proxy/", "/redirect/"), data)
  end

  # As a browser asks that goes on with a download: of Active Storage's own service for files.
  def check_part_of(path, data)
    request = Net::HTTP::Get.new(URI(get(path)["location"]).request_uri, "Range" => "bytes=5-70000")
    part = Net::HTTP.start("127.0.0.1", @port) { |http| http.request(request) }
    assert_equal ["206", "bytes 5-70000/300000", data[5..70_000]], [part.code, part["content-range"], part.body]
  end

  def check_together
    seen = JSON.parse(get("/together?person=mary").body)
    assert_equal ["mary", "de"], seen[0].first(2)
    assert_operator seen[0][3], :<=, 2
    assert_equal %w[child mary], seen[1..]
  end

  # Two people in one room; what one says both hear.
  def check_cable
    people = Array.new(2) { CableClient.new(@port) }
    people.each { |person| person.wait_for("confirm_subscription") }
    people.first.say("hello")
    people.each { |person| assert_equal "hello", person.wait_for("hello").dig("message", "text") }
  ensure
    people&.each(&:close)
  end

  def get(path) = Net::HTTP.get_response(URI("http://127.0.0.1:#{@port}#{path}"))

  # What a test that waits in vain for connections has to say.
  def so_far
    pool = Account.connection_pool
    [pool.stat, NB::Rails::PinnedConnection.holders(pool)].join("\n")
  end

  def with_server(name, adapter:, env: {})
    @port = Ports.free
    env = RailsApp.environment(adapter, **env, APP_LOG: "#{RailsApp::FOLDER}/#{name}.log")
    prepare(env)
    log = "#{RailsApp::FOLDER}/#{name}.out"
    pid = Process.spawn(env, RbConfig.ruby, "bin/rails", "server", *COMMANDS.fetch(name), "-p", @port.to_s,
                        "-b", "127.0.0.1", "-P", "#{RailsApp::FOLDER}/#{@port}.pid",
                        chdir: RailsApp::ROOT, %i[out err] => log, in: File::NULL)
    wait_for_server(pid, log)
    yield
  ensure
    stop(pid, log) if pid
  end

  def prepare(env)
    output, status = Open3.capture2e(env.merge("SCHEMA" => File::NULL), RbConfig.ruby, "bin/rails", "db:migrate",
                                     chdir: RailsApp::ROOT)
    assert status.success?, output
  end

  def wait_for_server(pid, log)
    Timeout.timeout(240) do
      begin
        TCPSocket.new("127.0.0.1", @port).close
      rescue Errno::ECONNREFUSED
        flunk(File.read(log)) if Process.wait(pid, Process::WNOHANG)
        sleep(0.05)
        retry
      end
    end
  end

  def stop(pid, log)
    Process.kill(:INT, pid)
    ended = Process.detach(pid)
    ended.join(120) || (Process.kill(:KILL, pid) && flunk("did not end:\n#{File.read(log)}"))
  rescue Errno::ESRCH
    flunk(File.read(log))
  end

  # As the browser's part of ActionCable.
  class CableClient
    attr_reader :url

    def initialize(port)
      @url = "ws://127.0.0.1:#{port}/cable"
      @socket = TCPSocket.new("127.0.0.1", port)
      @messages = []
      @driver = WebSocket::Driver.client(self, protocols: ["actioncable-v1-json"])
      @driver.on(:open) { command("subscribe") }
      @driver.on(:message) { |event| @messages << event.data }
      @driver.start
    end

    def write(data) = @socket.write(data)
    def close = @socket.close
    def say(text) = command("message", data: JSON.generate(action: "say", text: text))

    def wait_for(text)
      Timeout.timeout(60) do
        loop do
          found = @messages.find { |message| message.include?(text) }
          return JSON.parse(found) if found

          @driver.parse(@socket.readpartial(4096))
        end
      end
    end

    private

    def command(name, **more)
      @driver.text(JSON.generate(command: name, identifier: JSON.generate(channel: "RoomChannel"), **more))
    end
  end
end
# rubocop:enable Layout/LineLength
