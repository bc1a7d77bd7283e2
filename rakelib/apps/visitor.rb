# frozen_string_literal: true

require "cgi"
require "net/http"

module Apps
  # A browser without a screen: keeps its connection and its cookies, follows redirections, fills in
  # forms.
  class Visitor
    PATIENCE = 120
    # seconds: from the request to the last byte of the first answer.
    Answer = Struct.new(:path, :status, :type, :body, :seconds) do
      def html? = type.to_s.include?("html")
    end

    # A form's action, and its hidden fields.
    Form = Struct.new(:action, :hidden)

    attr_reader :name, :number, :port

    def initialize(number, port)
      @number = number
      @name = Application.visitor(number)
      @port = port
      @cookies = {}
    end

    def get(path) = follow(request(Net::HTTP::Get.new(path)))

    # @param fields [Hash{String => String}]
    def post(path, fields)
      request = Net::HTTP::Post.new(path)
      request.set_form_data(fields)
      follow(request(request))
    end

    # Fills in and posts the form of the page whose action matches.
    # @return [Answer] the page to which this leads
    def submit(path, action, fields)
      page = get(path)
      form = forms(page).find { |one| one.action.match?(action) } or
        raise "#{name}: no form #{action.inspect} on #{page.path} (#{page.status})"
      post(form.action, form.hidden.merge(fields))
    end

    # @return [Array<String>] the paths of this server that the page links to
    def links(page)
      tags = page.body.scan(/<a\b[^>]*>/).grep_v(/data-(turbo-)?method|data-remote/)
      tags.filter_map { |tag| local(CGI.unescapeHTML(tag[/\bhref=["']([^"']*)/, 1].to_s)) }.uniq
    end

    def close
      @http&.finish
    rescue IOError
      nil # not begun, or closed by the server
    end

    private

    def request(request)
      # As a proxy in front of the application would set it.
      request["X-Forwarded-Proto"] = "https"
      request["Host"] = "127.0.0.1:#{port}"
      request["Cookie"] = @cookies.map { |pair| pair.join("=") }.join("; ")
      request["Accept"] = "text/html,*/*"
      start = Process.clock_gettime(Process::CLOCK_MONOTONIC)
      response = http.request(request)
      seconds = Process.clock_gettime(Process::CLOCK_MONOTONIC) - start
      remember(response)
      @location = response["location"]
      Answer.new(request.path, response.code.to_i, response["content-type"], text(response),
                 seconds)
    end

    def http
      @http ||= Net::HTTP.new("127.0.0.1", port).tap do |http|
        http.read_timeout = http.open_timeout = PATIENCE
        http.keep_alive_timeout = PATIENCE
        http.max_retries = 0
        http.start
      end
    end

    def text(response) = response.body.to_s.dup.force_encoding(Encoding::UTF_8).scrub("?")

    def remember(response)
      response.get_fields("set-cookie").to_a.each do |line|
        pair, _, attributes = line.partition(";")
        name, value = pair.split("=", 2)
        over = attributes.match?(/max-age=0|expires=[^;]* 1970 /i)
        over ? @cookies.delete(name) : @cookies[name] = value
      end
    end

    def follow(answer)
      seconds = answer.seconds
      5.times do
        break unless (300..399).cover?(answer.status) && @location

        answer = request(Net::HTTP::Get.new(local(@location) || "/"))
      end
      answer.tap { answer.seconds = seconds }
    end

    # @return [String, nil] without host and fragment; nil if it leads to another host
    def local(address)
      path = address.sub(%r{\Ahttps?://127\.0\.0\.1(:\d+)?(?=/|\z)}, "").sub(/#.*/m, "")
      path if path.match?(%r{\A/(?!/)}) && path.ascii_only? && !path.match?(/\s/)
    end

    def forms(page)
      found = page.body.scan(%r{<form\b[^>]*>.*?</form>}m)
      found.grep_v(/\A<form\b[^>]*\bmethod=["']get/).map do |text|
        action = text[/\A<form\b[^>]*?\baction=["']([^"']*)/, 1] || page.path
        hidden = text.scan(/<input\b[^>]*>/).grep(/type=["']hidden/).to_h do |tag|
          [attribute(tag, "name"), attribute(tag, "value")]
        end
        Form.new(local(CGI.unescapeHTML(action)) || page.path, hidden)
      end
    end

    def attribute(tag, name) = CGI.unescapeHTML(tag[/\b#{name}=["']([^"']*)/, 1].to_s)
  end
end
