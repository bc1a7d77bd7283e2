# frozen_string_literal: true

require "minitest/autorun"
require "socket"
require_relative "../rakelib/apps/application"
require_relative "../rakelib/apps/masks"
require_relative "../rakelib/apps/visitor"
require_relative "../rakelib/apps/walk"
require_relative "../rakelib/apps/crowd"

# The visitors of `rake apps`, against a small application that can be made to mix them up.
class AppsTest < Minitest::Test
  # Signs in by a form, shows who one is, and what was written last.
  class Place < Apps::Application
    def enter(visitor) = visitor.submit("/", /enter/, "name" => visitor.name)
    def paths = %w[/ /clock]
    def written = "anything"
    def write(visitor, text) = visitor.submit("/", /write/, "text" => text)
  end

  # Answers one request a connection.
  class Site
    attr_reader :port, :texts

    def initialize(mixed: false)
      @server = TCPServer.new("127.0.0.1", 0)
      @port = @server.addr[1]
      @mixed = mixed
      @count = 0
      @texts = []
      @thread = Thread.new { loop { serve(@server.accept) } }
    end

    def stop
      @thread.kill.join
      @server.close
    end

    private

    def serve(client)
      head = client.gets("\r\n\r\n")
      body = client.read(head[/content-length: (\d+)/i, 1].to_i)
      name = head[/cookie: .*name=(\w+)/i, 1]
      client.write(answer(head, body, name))
    ensure
      client.close
    end

    def answer(head, body, name)
      fields = URI.decode_www_form(body).to_h
      return redirection("name=#{fields["name"]}") if head.start_with?("POST /enter")

      @texts << fields["text"] if fields["text"]
      name = "visitor49" if @mixed && name == "visitor07"
      clock = "at #{@count += 1}" if head.include?("/clock")
      page("<p>#{name}</p><p>#{fields["text"]}</p><p>#{clock}</p>")
    end

    def redirection(cookie)
      "HTTP/1.1 302 Found\r\nlocation: /\r\nset-cookie: #{cookie}; path=/\r\n" \
        "content-length: 0\r\nconnection: close\r\n\r\n"
    end

    def page(text)
      text += '<a href="/next#end">next</a><a href="https://elsewhere.example/">away</a>' \
              '<a data-method="delete" href="/out">out</a>' \
              '<form action="/enter"><input type="hidden" name="authenticity_token" value="x">' \
              '</form><form action="/write"></form>'
      "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: #{text.bytesize}\r\n" \
        "connection: close\r\n\r\n#{text}"
    end
  end

  def site(**options)
    site = Site.new(**options)
    yield site
  ensure
    site&.stop
  end

  def crowd(site)
    place = Place.new
    crowd = Apps::Crowd.new(place, Apps::Walk.new(place, site.port), site.port)
    crowd.enter
    crowd.look
    crowd.write
    crowd
  end

  def test_a_walk_follows_links_of_its_own_server_and_finds_what_is_steady
    site do |site|
      walk = Apps::Walk.new(Place.new, site.port)
      assert_equal %w[/ /clock /next], walk.pages.map(&:path)
      assert_equal %w[/ /next], walk.steady.map(&:path)
      assert_equal %w[/clock], walk.restless.keys
    end
  end

  def test_a_visitor_keeps_a_cookie_whatever_its_value
    site do |site|
      visitor = Apps::Visitor.new(1, site.port)
      assert_includes visitor.post("/enter", "name" => "a1970").body, "<p>a1970</p>"
    end
  end

  def test_a_crowd_finds_no_fault_where_there_is_none
    site do |site|
      crowd = crowd(site)
      assert_empty crowd.faults
      assert_equal Apps::Application::VISITORS * Place.new.looks, crowd.seconds.size
      assert_equal Apps::Application::VISITORS * Apps::Crowd::WRITES, site.texts.uniq.size
    end
  end

  def test_a_crowd_sees_that_one_visitor_is_taken_for_another
    site(mixed: true) do |site|
      kinds = crowd(site).faults.map(&:kind).uniq
      assert_includes kinds, :crossed
      assert_includes kinds, :body
    end
  end
end
