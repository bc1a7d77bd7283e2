# frozen_string_literal: true

require "digest"
require_relative "server"
require_relative "page/download"
require_relative "page/gate"
require_relative "page/live"
require_relative "page/mount"
require_relative "page/source"

module NB
  # A live page about this server: requests in flight, fibers, stalls, pools, workers. It is a Rack
  # application: mount it anywhere, or let `nb serve --page` mount it.
  #
  # It shows paths and lines of your program, so without options it answers only clients on this
  # machine. See docs/OBSERVE.md.
  #
  # @example config/routes.rb: the application has authenticated whoever gets there
  #   authenticate(:user, ->(user) { user.admin? }) { mount NB::Page.new(allow: :all) => "/loop" }
  # @example config.ru
  #   map("/loop") { run NB::Page.new(password: ENV.fetch("PAGE_PASSWORD")) }
  class Page
    FOLDER = File.join(__dir__, "page")
    ASSETS = {"/" => ["index.html", "text/html; charset=utf-8"],
              "/style.css" => ["style.css", "text/css; charset=utf-8"],
              "/icon.svg" => ["icon.svg", "image/svg+xml"],
              **%w[page charts rates story tables words].to_h do |name|
                ["/#{name}.js", ["#{name}.js", "text/javascript; charset=utf-8"]]
              end}.freeze
    # Allows only the page's own scripts, styles and connections, and no frame around it.
    HEADERS = {
      "content-security-policy" =>
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; " \
        "img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
      "x-content-type-options" => "nosniff", "referrer-policy" => "no-referrer",
      "cross-origin-resource-policy" => "same-origin", "x-frame-options" => "DENY"
    }.freeze
    JSON_TYPE = "application/json"
    TEXT_TYPE = "text/plain; charset=utf-8"
    private_constant :FOLDER, :ASSETS, :HEADERS, :JSON_TYPE, :TEXT_TYPE

    # The same as {#call} of a page without options, so the class itself can be mounted.
    #
    # @param env [Hash]
    # @return [Array(Integer, Hash, #each)]
    # @scheduling may wait
    # @thread any
    def self.call(env) = (@page ||= new).call(env)

    # @param allow [Symbol, Array<String>] who may see the page. :loopback: clients on this machine;
    #   an Array of addresses and networks, such as `["10.0.0.0/8"]`; :all: everybody, if the
    #   application has authenticated the request
    # @param hosts [Array<String>] names allowed in the Host field, besides `localhost` and
    #   addresses. Other names are refused, because anybody can point a name at this machine
    # @param password [String, nil] lets in clients that send it, with any user name (HTTP Basic),
    #   from anywhere unless `allow` names addresses
    # @raise [ArgumentError]
    def initialize(allow: :loopback, hosts: [], password: nil)
      @gate = Gate.new(allow: allow, hosts: hosts, password: password)
    end

    # @param env [Hash]
    # @return [Array(Integer, Hash, #each)]
    # @scheduling may wait
    # @thread any
    def call(env)
      refusal = @gate.refuse(env)
      status, headers, body = refusal || answer(env)
      headers = {"cache-control" => "no-store", **HEADERS, **headers}
      [status, headers, env["REQUEST_METHOD"] == "HEAD" ? [] : body]
    end

    private

    def answer(env)
      path = env["PATH_INFO"].to_s
      return to_folder(env) if path.empty? || (path == "/" && !folder?(env))
      return asset(env, *ASSETS[path]) if ASSETS.key?(path)

      case path
      when "/snapshot" then [200, {"content-type" => JSON_TYPE}, [json(env, env["QUERY_STRING"])]]
      when "/dump" then dump(env)
      when "/events" then events(env)
      else say(404, "The page has no #{Server::Text.ascii(path)}.")
      end
    rescue ArgumentError => error
      say(400, error.message)
    end

    # Rails sets "/" for "/loop", too; the URI has the path that the client asked for.
    def folder?(env) = uri(env).nil? || uri(env).end_with?("/")
    def uri(env) = env["REQUEST_URI"]&.slice(/\A[^?]*/)

    # The page's links are relative, so it can be mounted anywhere, also behind a proxy's prefix.
    def to_folder(env)
      name = (uri(env) || env["SCRIPT_NAME"]).to_s[%r{[^/]*\z}]
      [301, {"location" => "./#{name}/", "content-type" => TEXT_TYPE}, []]
    end

    def asset(env, name, type)
      body, tag = Page.read(name)
      headers = {"content-type" => type, "etag" => tag, "cache-control" => "no-cache"}
      return [304, headers.except("content-type"), []] if env["HTTP_IF_NONE_MATCH"] == tag

      [200, headers, [body]]
    end

    def json(env, query) = Source.json(Server.of(env), query)

    def dump(env)
      name = "neverblock-#{Time.now.utc.strftime("%Y%m%d-%H%M%S")}.txt"
      headers = {"content-type" => TEXT_TYPE,
                 "content-disposition" => "attachment; filename=\"#{name}\""}
      [200, headers, [Download.text(json(env, Download::DETAIL))]]
    end

    # Other servers would occupy a thread for each viewer: there the page polls instead.
    def events(env)
      return say(404, "Only NeverBlock's server sends events.") unless env["neverblock.exchange"]

      Live.body(Server.of(env)) or
        return say(503, "Too many viewers, or the server stops.", "retry-after" => "10")
    end

    def say(status, text, headers = {})
      [status, {"content-type" => TEXT_TYPE, **headers}, ["#{text}\n"]]
    end

    class << self
      # @return [Array(String, String)] the file and its entity tag
      # @api private
      def read(name)
        @files ||= {}
        @files[name] ||= File.binread(File.join(FOLDER, name)).then do |body|
          [body.freeze, %("#{Digest::SHA256.hexdigest(body)[0, 16]}").freeze].freeze
        end
      end
    end
  end
end
