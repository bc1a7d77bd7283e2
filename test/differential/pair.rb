# frozen_string_literal: true

require "uri"

module Differential
  # What we and another parser say about the same bytes, and the classes of what they disagree
  # about. Every class that is named is explained in docs/PARSER.md; "unexplained: …" is a finding.
  Pair = Struct.new(:other, :bytes, :ours, :theirs) do
    # @return [Array<String>] none when both agree
    def classes
      case [ours.verdict, theirs.verdict]
      in [:refuse, :refuse] | [:body | :more, :more] then []
      in [:refuse, _] then ["refused: #{ours.reason}"]
      in [_, :refuse] then [taken]
      in [:accept, :accept] then differences
      in [_, _] if %w[CONNECT PRI].include?(ours.method) then ["read differently: #{ours.method}"]
      else ["unexplained: we say #{ours.verdict}, #{other} #{theirs.verdict}"]
      end
    end

    private

    def taken
      found, = Pair::TAKEN[other].find do |_, reason, test|
        theirs.reason.match?(reason) && instance_exec(&test)
      end
      found ? "taken: #{found}" : "unexplained: we take what #{other} refuses: #{theirs.reason}"
    end

    def differences
      found = %i[method target size body].reject { |part| ours[part] == theirs[part] }
      found << :keep unless [nil, ours.keep].include?(theirs.keep)
      found << :fields unless same_fields?
      found << :version unless theirs.minor.end_with?("1.#{ours.minor}")
      found.empty? ? [] : [explain(found)]
    end

    def explain(found)
      if ours.method == "CONNECT" && (found - %i[size body]).empty?
        "read differently: CONNECT"
      elsif found == [:version] && minor > 1
        "read differently: minor version"
      elsif found == [:keep] && ours.minor.zero? && !ours.keep
        "read differently: close in 1.0"
      else
        "unexplained: #{other} reads #{found.join(" and ")} differently"
      end
    end

    def same_fields?
      return ours.fields == theirs.fields if theirs.fields.is_a?(Array)

      theirs.fields.select { |key, _| key == "CONTENT_TYPE" || key.start_with?("HTTP_") } ==
        puma_env
    end

    # What Puma makes of fields: joins those of one name; an underscore loses against a hyphen.
    def puma_env
      env = Hash.new { |hash, key| hash[key] = [] }
      ours.fields.each { |name, value| env[rack_key(name)] << value }
      env.transform_values! { |values| values.join(", ") }
      shadowed, env = env.partition { |key, _| key.include?(",") }.map(&:to_h)
      shadowed.each { |key, value| env[unmasked(key)] ||= value }
      env.except("HTTP_TRANSFER_ENCODING", "CONTENT_LENGTH")
    end

    def rack_key(name)
      key = name.upcase.tr("_-", ",_")
      %w[CONTENT_LENGTH CONTENT_TYPE].include?(key) ? key : "HTTP_#{key}"
    end

    def unmasked(key)
      %w[HTTP_TRANSFER,ENCODING HTTP_CONTENT,LENGTH].include?(key) ? key : key.tr(",", "_")
    end

    # As it came: 2 for HTTP/1.2.
    def minor
      bytes[/\A(?:\r\n)?#{Regexp.escape(ours.method)} \S+ HTTP\/1\.(\d)/n, 1].to_i
    end

    def blank_in_extension?
      bytes.match?(/^\h+[ \t]+;|^\h+;[^\r]*[=;][ \t]|^\h+;[^\r]*[ \t]+[=;]/n)
    end

    def framing_trailer?
      ours.framing == "chunked" &&
        bytes[/\r\n0.*\z/mn]&.match?(/^(transfer-encoding|content-length)/in)
    end

    # What Puma asks about an absolute target.
    def uri?
      URI.parse(ours.target).is_a?(URI)
    rescue URI::InvalidURIError
      false
    end
  end

  Pair::LLHTTP_METHODS = %w[DELETE GET HEAD POST PUT CONNECT OPTIONS TRACE COPY LOCK MKCOL MOVE
                            PROPFIND PROPPATCH SEARCH UNLOCK BIND REBIND UNBIND ACL REPORT
                            MKACTIVITY CHECKOUT MERGE M-SEARCH NOTIFY SUBSCRIBE UNSUBSCRIBE PATCH
                            PURGE MKCALENDAR LINK UNLINK SOURCE].freeze

  # Class, what the other parser says, and what must be true of the pair.
  Pair::TAKEN = {
    "llhttp" => [
      ["PRI", /HTTP\/2 Connection Preface/, -> { ours.method == "PRI" }],
      ["method", /INVALID_METHOD/, -> { !Pair::LLHTTP_METHODS.include?(ours.method) }],
      ["minor version", /Invalid HTTP version/, -> { minor > 1 }],
      ["blank in chunk extension", /in chunk (size|extensions)/, -> { blank_in_extension? }],
      ["framing field in trailer", /Transfer-Encoding|Content-Length/, -> { framing_trailer? }]
    ],
    "Puma" => [
      ["method", /Bad method|Are you try/, -> { !ours.method.match?(/\A[A-Z0-9$\-_.]{1,20}\z/) }],
      ["empty line", /Are you try/, -> { bytes.start_with?("\r\n") }],
      ["CONNECT", /Bad path/, -> { ours.method == "CONNECT" }],
      ["target that is no URI", /Puma::HttpParserError\z/, -> { !uri? }],
      ["blank in chunk extension", /Invalid chunk size/, -> { blank_in_extension? }],
      ["trailer in part", /NoMethodError/,
       -> { ours.verdict == :body && ours.framing == "chunked" }]
    ]
  }.freeze
end
