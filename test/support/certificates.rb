# frozen_string_literal: true

require "openssl"

# A self-signed certificate for 127.0.0.1 and both ends of a TLS connection that use it.
module Certificates
  KEY = OpenSSL::PKey::EC.generate("prime256v1")

  module_function

  def certificate
    @certificate ||= OpenSSL::X509::Certificate.new.tap do |cert|
      cert.version = 2
      cert.serial = 1
      cert.subject = cert.issuer = OpenSSL::X509::Name.parse("/CN=localhost")
      cert.public_key = KEY
      cert.not_before = Time.now - 60
      cert.not_after = Time.now + 86_400
      names = OpenSSL::X509::ExtensionFactory.new
      cert.add_extension(names.create_extension("subjectAltName", "DNS:localhost,IP:127.0.0.1"))
      cert.sign(KEY, "SHA256")
    end
  end

  def server_context
    @server_context ||= OpenSSL::SSL::SSLContext.new.tap do |context|
      context.cert = certificate
      context.key = KEY
    end
  end

  def client_context
    @client_context ||= OpenSSL::SSL::SSLContext.new.tap do |context|
      context.verify_mode = OpenSSL::SSL::VERIFY_PEER
      context.cert_store = OpenSSL::X509::Store.new.add_cert(certificate)
    end
  end

  # @return [OpenSSL::SSL::SSLSocket] not yet accepted
  def server(io) = wrap(io, server_context)

  # @return [OpenSSL::SSL::SSLSocket] not yet connected
  def client(io) = wrap(io, client_context)

  def wrap(io, context)
    OpenSSL::SSL::SSLSocket.new(io, context).tap { |socket| socket.sync_close = true }
  end
end

Certificates.certificate
