# frozen_string_literal: true

# rubocop:disable Layout/LineLength -- a script or an expectation each, better on one line

require_relative "page_program"

# Who gets to see the page, what it answers, and what it costs others.
class ServerPageTest < Minitest::Test
  include PageProgram

  CLOSED = "default-src 'none'"

  def test_its_files_are_its_own
    serve
    {"" => "text/html", "style.css" => "text/css", "icon.svg" => "image/svg+xml",
     **%w[page charts rates story tables words].to_h { |name| ["#{name}.js", "text/javascript"] }}
      .each do |name, type|
        answer = get("/neverblock/#{name}")
        assert_equal ["200", type], [answer.code, answer.content_type], name
        assert_includes answer["content-security-policy"], CLOSED
        again = get("/neverblock/#{name}", "If-None-Match": answer["etag"])
        assert_equal ["304", nil], [again.code, again.body], name
      end
    assert_equal ["301", "./neverblock/"], get("/neverblock").then { |a| [a.code, a["location"]] }
    assert_equal "404", get("/neverblock/../../etc/passwd").code
    assert_equal @pid.to_s, get("/neverblocker").body
    finish
  end

  def test_nothing_in_its_files_comes_from_elsewhere
    Dir["#{File.dirname(ServerProgram::NB_PROGRAM)}/../lib/neverblock/page/*.{html,css,js,svg}"].each do |path|
      text = File.read(path).gsub("http://www.w3.org/2000/svg", "")
      refute_match(%r{(https?:)?//\w+\.\w}, text, path)
      refute_match(/innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|<script>|style="/, text, path)
    end
  end

  def refused(path = "/neverblock/", **options)
    answer = get(path, **options)
    refute_includes answer.body, "pid"
    [answer.code, answer["access-control-allow-origin"]]
  end

  def test_others_than_this_machine_are_refused
    address = Socket.ip_address_list.find { |one| one.ipv4? && !one.ipv4_loopback? } or skip "no other address"
    serve(host: "0.0.0.0")
    %w[/neverblock/ /neverblock/snapshot /neverblock/events /neverblock/dump].each do |path|
      assert_equal ["403", nil], refused(path, host: address.ip_address)
      assert_equal ["403", nil], refused(path, host: address.ip_address, "X-Forwarded-For": "127.0.0.1")
    end
    assert_equal "200", get("/neverblock/").code
    finish
  end

  def test_what_a_proxy_or_a_foreign_page_sends_is_refused
    serve
    {"X-Forwarded-For": "127.0.0.1", Forwarded: "for=127.0.0.1", "X-Real-IP": "127.0.0.1", Via: "1.1 a",
     Host: "evil.example", "Sec-Fetch-Site": "cross-site"}.each do |name, value|
      assert_equal ["403", nil], refused("/neverblock/snapshot", name => value), name
    end
    ["localhost:#{@port}", "[::1]:#{@port}", "127.0.0.1"].each do |host|
      assert_equal "200", get("/neverblock/snapshot", Host: host).code, host
    end
    old = TCPSocket.open("127.0.0.1", @port) do |socket|
      socket.write("GET /neverblock/snapshot HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n")
      socket.gets
    end
    assert_includes old, " 403 "
    linked = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    assert_equal "200", get("/neverblock/", **linked).code
    finish
  end

  def test_it_is_only_read
    serve
    %w[Post Put Delete Patch].each do |name|
      request = Net::HTTP.const_get(name).new("/neverblock/", "Origin" => "http://evil.example")
      request.body = "a=b" if request.request_body_permitted?
      answer = Net::HTTP.start("127.0.0.1", @port) { |http| http.request(request) }
      assert_equal ["405", "GET, HEAD"], [answer.code, answer["allow"]], name
    end
    finish
  end

  def test_a_password_opens_it_and_nothing_else_does
    serve(config: 'page "/ops/loop", password: "s3cret"')
    assert_equal "401", get("/ops/loop/").code
    ["x:wrong", ":", "s3cret", "x:s3cret1"].each do |words|
      assert_equal "401", get("/ops/loop/", Authorization: "Basic #{[words].pack("m0")}").code
    end
    right = "Basic #{["any:s3cret"].pack("m0")}"
    assert_equal "200", get("/ops/loop/", Authorization: right, Host: "app.example", "X-Forwarded-For": "8.8.8.8").code
    assert_equal @pid.to_s, get("/neverblock/").body
    finish
  end

  def test_networks_and_hosts_that_are_allowed
    address = Socket.ip_address_list.find { |one| one.ipv4? && !one.ipv4_loopback? } or skip "no other address"
    serve(host: "0.0.0.0", config: "page allow: [\"#{address.ip_address}/32\"], hosts: [\"ops.example\"]")
    assert_equal "200", get("/neverblock/", host: address.ip_address, Host: "ops.example").code
    assert_equal ["403", nil], refused(host: address.ip_address, Host: "evil.example")
    assert_equal ["403", nil], refused
    finish
  end

  def test_settings_that_are_none
    {'page "page"' => "page: must be a path such as /neverblock, got: \"page\"",
     "page allow: :everybody" => "page: allow must be :loopback, :all, or addresses such as",
     "page allow: nil" => "page: allow must be :loopback, :all, or addresses such as",
     "page allow: []" => "page: allow must be :loopback, :all, or addresses such as",
     'page password: ""' => "page: the password must be a String that is not empty",
     "page password: 4711" => "page: the password must be a String that is not empty"}.each do |text, words|
      error = assert_raises(ArgumentError) { NB::Server::Config.new(environment: {}).instance_eval(text) }
      assert_includes error.message, words
      refute_includes error.message, "4711"
    end
  end

  HERE = {"REQUEST_METHOD" => "GET", "REMOTE_ADDR" => "127.0.0.1", "HTTP_HOST" => "localhost", "PATH_INFO" => "/snapshot"}.freeze

  def status_of(page, **fields) = page.call(HERE.merge(fields.transform_keys(&:to_s))).first

  def test_whatever_a_proxy_says_of_itself_closes_the_page
    page = NB::Page.new
    assert_equal 200, status_of(page)
    %w[FORWARDED X_FORWARDED X_FORWARDED_PORT X_FORWARDED_SSL X_FORWARDED_PREFIX X_ORIGINAL_FORWARDED_FOR CF_CONNECTING_IP TRUE_CLIENT_IP
       X_AMZN_TRACE_ID X_ENVOY_EXTERNAL_ADDRESS FASTLY_CLIENT_IP X_REQUEST_START].each do |name|
      assert_equal 403, status_of(page, "HTTP_#{name}": "1"), name
    end
  end

  def test_a_password_and_addresses_are_both_needed
    page = NB::Page.new(allow: ["10.0.0.0/8"], password: "s3cret")
    right = "Basic #{["any:s3cret"].pack("m0")}"
    inside = {REMOTE_ADDR: "10.1.2.3", HTTP_HOST: "10.0.0.1"}
    assert_equal 200, status_of(page, HTTP_AUTHORIZATION: right, **inside)
    assert_equal 401, status_of(page, **inside)
    assert_equal 403, status_of(page, HTTP_AUTHORIZATION: right)
    assert_equal 403, status_of(page, HTTP_AUTHORIZATION: right, HTTP_X_FORWARDED_FOR: "10.1.2.3", **inside)
  end

  def test_it_tells_nothing_that_is_secret
    serve
    threads = start_requests("/wait/a?password=s3cret")
    eventually { snapshot["requests"].any? { |request| request["path"] == "/wait/a" } }
    all = %w[snapshot?frames=60 dump].map { |name| get("/neverblock/#{name}").body }
    all.each do |text|
      assert_includes text, "/wait/a"
      refute_includes text, "s3cret"
    end
    File.write("#{@dir}/go", "")
    threads.each(&:join)
    finish
  end

  def test_a_crowd_of_viewers_is_bounded_and_the_application_goes_on
    serve
    viewers = Array.new(1000) { viewer }
    codes = viewers.map { |_, line| line[/ (\d+) /, 1] }.tally
    assert_equal({"200" => NB::Page::Live::VIEWERS, "503" => 1000 - NB::Page::Live::VIEWERS}, codes)
    assert_equal @pid.to_s, get("/").body
    viewers.each { |socket,| socket.close }
    eventually { viewer.then { |socket, line| socket.close || line.include?(" 200 ") } }
    finish
  end

  def test_viewers_leave_half_of_few_fibers_to_the_application
    serve("--fibers", "5")
    viewers = Array.new(5) { viewer }
    assert_equal({"200" => 2, "503" => 3}, viewers.map { |_, line| line[/ (\d+) /, 1] }.tally)
    assert_equal @pid.to_s, get("/").body
    viewers.each { |socket,| socket.close }
    finish
  end

  def test_a_viewer_holds_up_no_stop
    serve
    sockets = Array.new(2) { viewer.first }
    sockets.each { |socket| Timeout.timeout(60) { nil until socket.gets.start_with?("data: ") } }
    began = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    assert_predicate finish, :success?
    assert_operator Process.clock_gettime(Process::CLOCK_MONOTONIC) - began, :<, 20
    sockets.each { |socket| assert_operator Timeout.timeout(20) { socket.read }, :end_with?, "0\r\n\r\n" }
  end

  def test_a_cluster_shows_all_workers_whichever_answers
    serve("-w", "2")
    eventually { workers.size == 2 }
    10.times do
      assert_equal pids.sort, snapshot["workers"].map { |worker| worker["pid"] }.sort
    end
    finish
  end

  # As Rails does: it says "/" for a mount without its slash.
  def test_a_mount_is_a_folder
    env = {"REQUEST_METHOD" => "GET", "REMOTE_ADDR" => "::ffff:127.0.0.1", "HTTP_HOST" => "localhost:3000",
           "SCRIPT_NAME" => "/admin/loop", "PATH_INFO" => "/"}
    {"/admin/loop?a=/" => [301, "./loop/"], "/admin/loop/?a" => [200, nil]}.each do |uri, expected|
      status, headers, = NB::Page.call(env.merge("REQUEST_URI" => uri))
      assert_equal expected, [status, headers["location"]], uri
    end
  end

  # The class itself is an application, too; elsewhere the page asks again and again.
  def test_another_server_runs_it
    env = {"REQUEST_METHOD" => "GET", "REMOTE_ADDR" => "127.0.0.1", "HTTP_HOST" => "localhost"}
    status, _, body = NB::Page.call(env.merge("PATH_INFO" => "/snapshot"))
    assert_equal 200, status
    found = JSON.parse(body.join)
    assert_equal [Process.pid, nil, nil, []], found.values_at("pid", "ready", "loop", "requests")
    assert_equal 404, NB::Page.call(env.merge("PATH_INFO" => "/events")).first
  end
end

# The page as a person sees it: headless Chromium on a server under load.
class ServerPageBrowserTest < Minitest::Test
  include PageProgram

  SCRIPT = "%3Cimg%20src=x%20onerror=document.title=1%3E"

  def browse(path = "/neverblock/")
    @browser = Browser.new(program("chromium"))
    @browser.look(width: 1280)
    @browser.open("http://127.0.0.1:#{@port}#{path}")
    eventually { text("#state") == "ready" }
  end

  def text(selector) = @browser.evaluate("document.querySelector(#{selector.to_json})?.innerText")

  def test_it_shows_what_runs
    serve(config: "page; request_timeout nil")
    threads = start_requests("/wait/#{SCRIPT}/#{"long-" * 80}", "/wait/b", "/fibers", "/compute")
    browse
    eventually { text("#requests").to_s.include?("GET /wait/b") }
    assert_includes text("#requests"), "/wait/%3Cimg%20src=x"
    eventually { text("#stalls").to_s.include?("config.ru:") }
    assert_equal "1 place", text("#stalls-count")
    eventually { text("#fibers-count").to_s.include?("more not shown") }
    assert_includes text("#fibers"), "mailer"
    assert_equal "NeverBlock", @browser.evaluate("document.title")
    check_keyboard
    check_story
    check_width
    check_end(threads)
    assert_empty @browser.complaints
    eventually { text("#requests").to_s.include?("No request runs.") }
    finish
    eventually { text("#notice").to_s.include?("does not answer") }
  end

  # A row's button opens its backtrace by the keyboard, and the row stays open and focused.
  def check_keyboard
    @browser.evaluate("document.querySelector('#requests td.more button').focus()")
    @browser.press("Enter", "\r")
    eventually { text("#requests .detail").to_s.match?(/config\.ru:\d/) }
    sleep 2.5 # two further snapshots
    assert_equal "true", @browser.evaluate("document.activeElement.getAttribute('aria-expanded')")
    assert_match(/config\.ru:\d/, text("#requests .detail"))
  end

  def check_story
    @browser.evaluate("document.querySelector('#requests td.path a').click()")
    eventually { text("#story-trace").to_s.match?(/config\.ru:\d/) }
    eventually { text("#story-facts").to_s.include?("waits for sleep") } # between two looks it runs
    assert_equal "story-title", @browser.evaluate("document.activeElement.id")
    eventually { text("#story-past").to_s.match?(/\d\d:\d\d:\d\d waits for sleep at config\.ru/) }
    @browser.evaluate("location.hash = ''")
    eventually { @browser.evaluate("document.querySelector('#story').hidden") }
  end

  # The page of a request keeps to it: its fiber serves the page's own requests next.
  def check_end(threads)
    @browser.look(width: 1280)
    @browser.evaluate("[...document.querySelectorAll('#requests td.path a')].find(a => a.innerText == 'GET /wait/b').click()")
    eventually { text("#story-title") == "GET /wait/b" }
    File.write("#{@dir}/go", "")
    threads.each(&:join)
    eventually { text("#story-past").to_s.include?("The request has ended.") }
    2.times { viewer_turn }
    assert_equal "GET /wait/b", text("#story-title")
    @browser.evaluate("location.hash = ''")
  end

  # Waits until the page has taken another snapshot.
  def viewer_turn
    before = text("#who")
    eventually { text("#who") != before }
  end

  def check_width
    [[1280, "dark"], [1280, "light"], [360, "dark"], [360, "light"]].each do |width, scheme|
      @browser.look(width: width, scheme: scheme)
      assert_equal width, @browser.evaluate("document.documentElement.scrollWidth")
      assert_operator contrast, :>=, 4.5, scheme
    end
  end

  # Of the quietest text on its card, by WCAG 2.
  def contrast
    @browser.evaluate(<<~JS)
      (() => {
        const light = text => {
          const [r, g, b] = text.match(/\\d+/g).map(n => (n /= 255) <= 0.04045 ? n / 12.92 : ((n + 0.055) / 1.055) ** 2.4)
          return 0.2126 * r + 0.7152 * g + 0.0722 * b
        }
        const colour = (selector, name) => light(getComputedStyle(document.querySelector(selector))[name])
        return [["dt", ".tiles > div"], [".muted", "header"], [".fibers a, #fibers a", "table"], ["#state", "header"]]
          .map(([text, back]) => [colour(text, "color"), colour(back, "backgroundColor")].sort((a, b) => b - a))
          .map(([a, b]) => (a + 0.05) / (b + 0.05)).sort((a, b) => a - b)[0]
      })()
    JS
  end

  # Of three requests at least one waits, whichever worker each goes to.
  def test_it_shows_pools_and_workers
    serve("-w", "2", config: "page; request_timeout nil")
    eventually { workers.size == 2 }
    threads = start_requests("/pool/a", "/pool/b", "/pool/c")
    browse
    eventually { text("#pools").to_s.match?(%r{GET /pool/\w waits for [\d.]+ .?s at config\.ru:\d}) }
    assert_match(%r{GET /pool/\w holds one for}, text("#pools"))
    assert_match(/^backend\s+1 of 1 in use, [12] wait/, text("#pools"))
    dump = get("/neverblock/dump").body
    assert_match(/^pool backend: 1 of 1 in use, [12] waiting$/, dump)
    assert_equal pids.sort, dump.scan(/^process (\d+), worker \d: /).flatten.map(&:to_i).sort
    assert_equal "2", text("#workers-count")
    pids.each { |pid| assert_includes text("#workers"), pid.to_s }
    assert_equal 2, @browser.evaluate("document.querySelectorAll('#workers tbody tr').length")
    check_width
    File.write("#{@dir}/go", "")
    threads.each(&:join)
    eventually { !text("#pools").to_s.match?(/waits|holds one/) }
    assert_empty @browser.complaints
    finish
  end

  # What a screen reader goes by.
  def test_its_structure_has_names
    serve
    browse
    unnamed = @browser.evaluate(<<~JS)
      [...document.querySelectorAll("section, article, table, svg[role=img], button, a, meter")].filter(node => {
        const by = node.getAttribute("aria-labelledby")
        return !(by ? document.getElementById(by)?.textContent : node.getAttribute("aria-label") || node.innerText || node.caption?.textContent)
      }).filter(node => node.checkVisibility()).map(node => node.outerHTML)
    JS
    assert_empty unnamed
    assert_equal [1, 1, 1], %w[header main h1].map { |name| @browser.evaluate("document.querySelectorAll('#{name}').length") }
    assert_equal "en", @browser.evaluate("document.documentElement.lang")
    assert @browser.evaluate("[...document.querySelectorAll('th')].every(th => th.scope === 'col')")
    finish
  end
end
# rubocop:enable Layout/LineLength
