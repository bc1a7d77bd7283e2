# frozen_string_literal: true

# Writes tables.h: `ruby tables.rb > tables.h`. A test fails when the two disagree.
# The names are those that browsers, proxies and API clients really send; each gets a small number,
# so that the parser can switch on it and the server can keep one frozen env key per number.
NAMES = %w[
  Host Connection Content-Length Transfer-Encoding Expect Upgrade Content-Type
  Accept Accept-Charset Accept-Datetime Accept-Encoding Accept-Language
  Access-Control-Request-Headers Access-Control-Request-Method Authorization Baggage
  Cache-Control CF-Connecting-IP CF-IPCountry CF-Ray CF-Visitor Client-IP Content-Disposition
  Content-Encoding Content-Language Cookie Date DNT Early-Data Forwarded From Idempotency-Key
  If-Match If-Modified-Since If-None-Match If-Range If-Unmodified-Since Keep-Alive Last-Event-ID
  Max-Forwards Origin Pragma Priority Proxy-Authorization Proxy-Connection Purpose Range Referer
  Save-Data Sec-CH-UA Sec-CH-UA-Mobile Sec-CH-UA-Platform Sec-Fetch-Dest Sec-Fetch-Mode
  Sec-Fetch-Site Sec-Fetch-User Sec-GPC Sec-Purpose Sec-WebSocket-Extensions Sec-WebSocket-Key
  Sec-WebSocket-Protocol Sec-WebSocket-Version TE Traceparent Tracestate Trailer Turbo-Frame
  Upgrade-Insecure-Requests User-Agent Via X-CSRF-Token X-Forwarded-For X-Forwarded-Host
  X-Forwarded-Port X-Forwarded-Proto X-Forwarded-Scheme X-Forwarded-Ssl X-HTTP-Method-Override
  X-Queue-Start X-Real-IP X-Request-ID X-Request-Start X-Requested-With
].freeze
SLOTS = 512

def slot(name, factors)
  bytes = name.downcase.bytes
  # Bit 5 is forced on, so that the hash needs no lower-casing: "-" and digits keep apart by it too.
  picked = [bytes[0], bytes[bytes.size / 2], bytes[-2], bytes[-1]].map { |byte| byte | 0x20 }
  (bytes.size * factors[0] + picked.zip(factors[1..]).sum { |byte, factor| byte * factor }) % SLOTS
end

def perfect_factors
  random = Random.new(2008)
  loop do
    factors = Array.new(5) { random.rand(1..511) }
    return factors if NAMES.map { |name| slot(name, factors) }.uniq.size == NAMES.size
  end
end

def constant(name) = "NB_FIELD_#{name.upcase.tr("-", "_")}"

def char_table(title, &block)
  rows = (0..255).map { |byte| block.call(byte.chr(Encoding::BINARY)) ? 1 : 0 }.each_slice(32)
  "static const unsigned char #{title}[256] = {\n" +
    rows.map { |row| "    #{row.join(", ")},\n" }.join + "};\n"
end

factors = perfect_factors
slots = Array.new(SLOTS, 0)
NAMES.each_with_index { |name, index| slots[slot(name, factors)] = index + 1 }

puts <<~C
  /* tables.h - character classes and the common field names. Pure C. Written by tables.rb. */
  #ifndef NB_HTTP_TABLES_H
  #define NB_HTTP_TABLES_H

  /* clang-format off */
  /* RFC 9110 5.6.2: what methods and field names are made of. */
  #{char_table("nb_is_token") { |c| c.match?(/[!#$%&'*+\-.^_`|~0-9A-Za-z]/n) }}
  /* A request target: no blank, control character, quote, angle bracket or hash. Bytes above 0x7f
   * are not in RFC 3986, but clients send them. */
  #{char_table("nb_is_target") { |c| c.match?(/[^\x00- "#<>\x7f]/n) }}
  /* RFC 3986 3.2.2: reg-name, and the colon and brackets around it are checked apart. */
  #{char_table("nb_is_host") { |c| c.match?(/[A-Za-z0-9\-._~%!$&'()*+,;=]/n) }}
  enum nb_field_known {
      NB_FIELD_UNKNOWN,
  #{NAMES.map { |name| "    #{constant(name)},\n" }.join}    NB_FIELD_KNOWN_COUNT
  };

  #define NB_FIELD_SLOT(size, a, b, c, d)                                                          \\
      (((size)*#{factors[0]}u + ((a) | 0x20u) * #{factors[1]}u + ((b) | 0x20u) * #{factors[2]}u +                            \\
        ((c) | 0x20u) * #{factors[3]}u + ((d) | 0x20u) * #{factors[4]}u) % #{SLOTS}u)

  static const unsigned char nb_field_slots[#{SLOTS}] = {
  #{slots.each_slice(32).map { |row| "    #{row.join(", ")},\n" }.join}};

  static const struct nb_field_name {
      const char *name; /* as most clients write it */
      unsigned size;
  } nb_field_names[NB_FIELD_KNOWN_COUNT] = {
      {"", 0},
  #{NAMES.map { |name| "    {\"#{name}\", #{name.size}},\n" }.join}};
  /* clang-format on */

  #endif
C
