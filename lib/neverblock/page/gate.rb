# frozen_string_literal: true

require "ipaddr"
require "openssl"
require_relative "../server/host_field"

module NB
  class Page
    # Decides who may see the page.
    #
    # @api private
    class Gate
      LOOPBACK = %w[127.0.0.0/8 ::1].freeze
      # How the fields begin by which a proxy says that the client is another one than REMOTE_ADDR,
      # or that it is there. Browsers send none of them.
      FORWARDED = %w[HTTP_FORWARDED HTTP_X_FORWARDED HTTP_X_ORIGINAL HTTP_X_REAL_IP HTTP_VIA
                     HTTP_CLIENT_IP HTTP_X_CLIENT_IP HTTP_TRUE_CLIENT_IP HTTP_X_CLUSTER_CLIENT_IP
                     HTTP_CF_ HTTP_FLY_ HTTP_FASTLY_ HTTP_X_AMZN_ HTTP_X_ENVOY_ HTTP_CDN_LOOP
                     HTTP_X_REQUEST_START HTTP_X_QUEUE_START].freeze
      METHODS = %w[GET HEAD].freeze
      TEXT = {"content-type" => "text/plain; charset=utf-8"}.freeze
      private_constant :LOOPBACK, :FORWARDED, :METHODS, :TEXT

      # @param allow [Symbol, Array<String>] see {Page#initialize}
      # @raise [ArgumentError]
      def initialize(allow:, hosts:, password:)
        # A password alone opens the page from anywhere.
        @networks = networks(allow) unless password && allow == :loopback
        @hosts = Array(hosts).map { |host| Server::Checks.text(:hosts, host).downcase }
        @password = password && words(password)
      end

      # @return [Array, nil] the refusal, or nil if the client may see the page
      def refuse(env)
        return no(405, "The page only answers GET.", "allow" => "GET, HEAD") unless
          METHODS.include?(env["REQUEST_METHOD"])
        return no(403, "The page of another site has sent this request.") if foreign?(env)

        refuse_address(env) || refuse_stranger(env)
      end

      private

      def networks(allow)
        return if allow == :all

        networks = allow == :loopback ? LOOPBACK : Array(allow)
        raise IPAddr::Error if networks.empty?

        networks.map { |network| IPAddr.new(network) }
      rescue IPAddr::Error, NoMethodError
        raise ArgumentError, "page: allow must be :loopback, :all, or addresses such as " \
                             "\"10.0.0.0/8\", got: #{allow.inspect}"
      end

      # The message does not show the value, which may be nearly the right password.
      def words(password)
        return password if password.is_a?(String) && !password.empty?

        raise ArgumentError, "page: the password must be a String that is not empty"
      end

      # A link to the page does no harm: only the browser's user sees it.
      def foreign?(env)
        site = env["HTTP_SEC_FETCH_SITE"]
        %w[cross-site same-site].include?(site) && env["HTTP_SEC_FETCH_MODE"] != "navigate"
      end

      def refuse_stranger(env)
        return unless @password

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

        no(403, "The Host of this request is not allowed.") unless
          Server::HostField.own?(env["HTTP_HOST"], @hosts)
      end

      # To a proxy on this machine, all its clients are on this machine. Browsers do not speak
      # HTTP/1.0; nginx does unless told otherwise.
      def proxied?(env)
        env["SERVER_PROTOCOL"] == "HTTP/1.0" ||
          env.each_key.any? { |key| key.start_with?(*FORWARDED) }
      end

      def allowed?(address)
        # Drops the zone of fe80::1%eth0, and takes ::ffff:10.0.0.1 for 10.0.0.1.
        address = IPAddr.new(address.to_s[/[^%]*/]).native
        @networks.any? { |network| network.include?(address) }
      rescue IPAddr::Error
        false
      end

      def no(status, text, headers = {})
        [status, {**TEXT, **headers}, ["#{text} docs/OBSERVE.md says who may see the page.\n"]]
      end
    end
  end
end
