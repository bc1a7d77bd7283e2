# frozen_string_literal: true

require "ipaddr"
require "openssl"

module NB
  class Page
    # Who may look at the page.
    #
    # @api private
    class Gate
      LOOPBACK = %w[127.0.0.0/8 ::1].freeze
      # With one of these a proxy says that the client is another one than REMOTE_ADDR.
      FORWARDED = %w[HTTP_FORWARDED HTTP_X_FORWARDED_FOR HTTP_X_FORWARDED_HOST HTTP_X_REAL_IP
                     HTTP_X_FORWARDED_PROTO HTTP_X_FORWARDED_SERVER HTTP_VIA HTTP_CLIENT_IP].freeze
      METHODS = %w[GET HEAD].freeze
      TEXT = {"content-type" => "text/plain; charset=utf-8"}.freeze
      HOST = /\A(?:\[(?<v6>[^\]]+)\]|(?<name>[^:\[\]]+))(?::\d+)?\z/
      private_constant :LOOPBACK, :FORWARDED, :METHODS, :TEXT, :HOST

      # @param allow [Symbol, Array<String>] see {Page#initialize}
      # @raise [ArgumentError]
      def initialize(allow:, hosts:, password:)
        @networks = networks(allow)
        @hosts = Array(hosts).map { |host| Server::Checks.text(:hosts, host).downcase }
        @password = password && Server::Checks.text(:password, password)
      end

      # @return [Array, nil] the response for who may not
      def refuse(env)
        return no(405, "The page only answers GET.", "allow" => "GET, HEAD") unless
          METHODS.include?(env["REQUEST_METHOD"])
        return no(403, "Another site's page asks for this one.") if foreign?(env)

        @password ? refuse_stranger(env) : refuse_address(env)
      end

      private

      def networks(allow)
        return if allow == :all

        (allow == :loopback ? LOOPBACK : Array(allow)).map { |network| IPAddr.new(network) }
      rescue IPAddr::Error, NoMethodError
        raise ArgumentError, "page: allow must be :loopback, :all, or addresses such as " \
                             "\"10.0.0.0/8\", got: #{allow.inspect}"
      end

      # A link to the page is no harm: what the browser gets is shown to its user only.
      def foreign?(env)
        site = env["HTTP_SEC_FETCH_SITE"]
        %w[cross-site same-site].include?(site) && env["HTTP_SEC_FETCH_MODE"] != "navigate"
      end

      def refuse_stranger(env)
        kind, words = env["HTTP_AUTHORIZATION"].to_s.split(" ", 2)
        _, given = words.to_s.unpack1("m").split(":", 2) if kind&.casecmp?("basic")
        return if given && OpenSSL.secure_compare(given.b, @password.b)

        no(401, "The page has a password.", "www-authenticate" => 'Basic realm="NeverBlock"')
      end

      def refuse_address(env)
        return unless @networks
        return no(403, "A proxy has sent this request.") if proxied?(env)

        client = env["REMOTE_ADDR"]
        return no(403, "#{Server::Text.ascii(client)} may not look at this page.") unless
          allowed?(client)

        no(403, "The Host of this request is not allowed.") unless host?(env["HTTP_HOST"])
      end

      # For a proxy on this machine every client is one on this machine. Browsers do not speak
      # HTTP/1.0; nginx does, as long as it is not told otherwise.
      def proxied?(env)
        env["SERVER_PROTOCOL"] == "HTTP/1.0" || FORWARDED.any? { |key| env.key?(key) }
      end

      def allowed?(address)
        # Without the zone of fe80::1%eth0; ::ffff:10.0.0.1 is 10.0.0.1.
        address = IPAddr.new(address.to_s[/[^%]*/]).native
        @networks.any? { |network| network.include?(address) }
      rescue IPAddr::Error
        false
      end

      # DNS rebinding: a foreign site's name points at this machine, and its script asks. An address
      # is no name.
      def host?(host)
        match = HOST.match(host.to_s) or return false
        name = (match[:v6] || match[:name]).downcase
        name == "localhost" || @hosts.include?(name) || (IPAddr.new(name) && true)
      rescue IPAddr::Error
        false
      end

      def no(status, text, headers = {})
        [status, {**TEXT, **headers}, ["#{text} docs/OBSERVE.md tells who may.\n"]]
      end
    end
  end
end
