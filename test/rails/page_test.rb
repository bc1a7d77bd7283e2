# frozen_string_literal: true

require "rails/helper"

RailsApp.load("neverblock_sqlite3")

# NB::Page mounted in the application's routes, behind its own authentication.
class RailsPageTest < Minitest::Test
  PATHS = %w[/loop /loop/ /loop/page.js /loop/snapshot /loop/dump /loop/events].freeze

  def get(path, cookie = nil, **fields)
    Net::HTTP.start("127.0.0.1", @port) do |http|
      http.get(path, {"Cookie" => cookie, **fields.transform_keys(&:to_s)}.compact)
    end
  end

  # @return [String] the cookie of the session
  def login(password)
    address = URI("http://127.0.0.1:#{@port}/login")
    Net::HTTP.post_form(address, password: password)["set-cookie"][/[^;]*/]
  end

  def serve
    RailsApp.serve do |port|
      @port = port
      yield
    end
  end

  def test_whom_the_application_does_not_know_is_refused
    serve do
      [nil, login("wrong"), "_test_app_session=forged"].each do |cookie|
        PATHS.each { |path| assert_equal "404", get(path, cookie).code, path }
      end
    end
  end

  # From anywhere, and through proxies: the application has authenticated the request.
  def test_whom_the_application_lets_in_sees_it
    serve do
      cookie = login("s3cret")
      assert_equal ["301", "./loop/"], get("/loop", cookie).then { |a| [a.code, a["location"]] }
      page = get("/loop/", cookie, Host: "app.example", "X-Forwarded-For": "8.8.8.8")
      assert_equal ["200", "text/html"], [page.code, page.content_type]
      assert_equal "200", get("/loop/page.js", cookie).code
      paths = JSON.parse(get("/loop/snapshot", cookie).body)["requests"].map { |one| one["path"] }
      assert_equal ["/loop/snapshot"], paths
      assert_includes get("/loop/dump", cookie).body, "NeverBlock, pid #{Process.pid}"
      assert_includes first_event(cookie), "data: {"
    end
  end

  def first_event(cookie)
    TCPSocket.open("127.0.0.1", @port) do |socket|
      socket.write("GET /loop/events HTTP/1.1\r\nHost: a\r\nCookie: #{cookie}\r\n\r\n")
      line = nil
      line = socket.gets until line&.start_with?("data: ")
      line
    end
  end

  def test_a_post_changes_nothing
    serve do
      cookie = login("s3cret")
      answer = Net::HTTP.start("127.0.0.1", @port) { |http| http.post("/loop/", "", "Cookie" => cookie) }
      assert_equal "405", answer.code
    end
  end
end
