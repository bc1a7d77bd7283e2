# frozen_string_literal: true

require "digest/md5" # by name: Digest loads it on first use, and two threads at once fail
require "digest/sha2"
require "openssl"
require_relative "threaded_server"

# As much of S3 as puts and gets objects, in plain threads, a program of its own. It checks what
# AWS checks of a request before anything else, its signature (Signature Version 4, computed here
# from the standard, not by the SDK), and answers after a delay.
#
#   ruby s3_server.rb PORT DELAY
class S3Server
  include ThreadedServer

  KEY = "AKIDEXAMPLE"
  SECRET = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
  AUTHORIZATION = %r{
    \AAWS4-HMAC-SHA256\ Credential=(?<key>[^/]+)/(?<scope>\S+),
    \ SignedHeaders=(?<names>\S+),\ Signature=(?<signature>\h+)\z
  }x
  Request = Struct.new(:verb, :path, :query, :headers, :body)

  def initialize(port, delay)
    listen(port)
    @delay = delay
    @objects = {}
  end

  private

  def converse(client)
    while (request = read(client))
      sleep @delay
      signed?(request) ? answer(client, request) : refuse(client)
    end
  end

  def read(client)
    line = client.gets or return
    verb, target = line.split
    headers = {}
    while (field = client.gets.chomp) && !field.empty?
      name, value = field.split(":", 2)
      headers[name.downcase] = value.strip
    end
    client.write("HTTP/1.1 100 Continue\r\n\r\n") if headers["expect"]
    path, query = target.split("?", 2)
    Request.new(verb, path, query.to_s, headers, client.read(headers["content-length"].to_i))
  end

  def answer(client, request)
    case request.verb
    when "PUT"
      @objects[request.path] = request.body
      respond(client, "200 OK", "", "ETag" => "\"#{Digest::MD5.hexdigest(request.body)}\"")
    when "GET"
      body = @objects[request.path]
      body ? respond(client, "200 OK", body) : fail_with(client, "404 Not Found", "NoSuchKey")
    end
  end

  def refuse(client) = fail_with(client, "403 Forbidden", "SignatureDoesNotMatch")

  def fail_with(client, status, code)
    respond(client, status, "<Error><Code>#{code}</Code><Message>#{code}</Message></Error>")
  end

  def respond(client, status, body, fields = {}) # rubocop:disable Metrics/ParameterLists
    lines = { "Content-Length" => body.bytesize, **fields }.map { |pair| pair.join(": ") }
    client.write("HTTP/1.1 #{[status, *lines].join("\r\n")}\r\n\r\n#{body}")
  end

  def signed?(request)
    sent = AUTHORIZATION.match(request.headers["authorization"].to_s) or return false
    sent[:key] == KEY && whole?(request) && sent[:signature] == signature(request, sent)
  end

  # The body is the one that was signed.
  def whole?(request)
    request.headers["x-amz-content-sha256"] == Digest::SHA256.hexdigest(request.body)
  end

  def signature(request, sent)
    text = ["AWS4-HMAC-SHA256", request.headers["x-amz-date"], sent[:scope],
            Digest::SHA256.hexdigest(canonical(request, sent[:names]))].join("\n")
    key = sent[:scope].split("/").inject("AWS4#{SECRET}") { |secret, part| hmac(secret, part) }
    hmac(key, text).unpack1("H*")
  end

  def canonical(request, names)
    fields = names.split(";").map { |name| "#{name}:#{request.headers[name]}\n" }.join
    query = request.query.split("&").map { |pair| pair.include?("=") ? pair : "#{pair}=" }.sort
    [request.verb, request.path, query.join("&"), fields, names,
     request.headers["x-amz-content-sha256"]].join("\n")
  end

  def hmac(key, text) = OpenSSL::HMAC.digest("SHA256", key, text)
end

if $PROGRAM_NAME == __FILE__
  port, delay = ARGV
  S3Server.new(Integer(port), Float(delay)).run
end
