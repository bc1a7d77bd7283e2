# frozen_string_literal: true

require "rbconfig"
require_relative "certificates"
require_relative "servers"

# HTTP servers that clients are proved against: `nb delayd`, which answers "done" after ?ms=, and
# nginx before it for TLS, with the certificate of Certificates for localhost.
module HTTPServers
  NB = File.expand_path("../../exe/nb", __dir__)

  module_function

  # @return [Servers::Server]
  def plain
    Servers.fetch("delayd") do |port, _|
      [RbConfig.ruby, NB, "delayd", "--quiet", "--port", port.to_s]
    end
  end

  # From then on, OpenSSL trusts its certificate in this process.
  # @return [Servers::Server]
  def tls
    behind = plain.port
    Servers.fetch("nginx") do |port, folder|
      File.write("#{folder}/nginx.conf", configuration(port, folder, behind))
      File.write("#{folder}/key.pem", Certificates::KEY.to_pem)
      File.write("#{folder}/certificate.pem", Certificates.certificate.to_pem)
      trust("#{folder}/certificate.pem")
      ["nginx", "-c", "#{folder}/nginx.conf", "-e", "#{folder}/error.log"]
    end
  end

  # OpenSSL's own files are 140 certificates, 20 ms for each client that reads them.
  def trust(file)
    ENV["SSL_CERT_FILE"] = file
    ENV["SSL_CERT_DIR"] = File.dirname(file)
    OpenSSL::SSL::SSLContext::DEFAULT_CERT_STORE.add_cert(Certificates.certificate)
  end

  def url(ms = 0, host: "127.0.0.1", port: plain.port) = "http://#{host}:#{port}/?ms=#{ms}"
  def tls_url(ms = 0) = "https://localhost:#{tls.port}/?ms=#{ms}"

  # @return [String] the file that a client is to trust
  def authority = "#{tls.folder}/certificate.pem"

  def configuration(port, folder, behind)
    <<~NGINX
      daemon off;
      pid #{folder}/pid;
      events { worker_connections 1024; }
      http {
        access_log off;
        keepalive_requests 10000;
        upstream delayd { server 127.0.0.1:#{behind}; keepalive 100; }
        server {
          listen 127.0.0.1:#{port} ssl;
          ssl_certificate #{folder}/certificate.pem;
          ssl_certificate_key #{folder}/key.pem;
          location / {
            proxy_pass http://delayd;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
          }
        }
      }
    NGINX
  end
end
