# frozen_string_literal: true

require "tmpdir"

# Debian's nginx, one process, sendfile: the yardstick for files.
Bench.runtime "nginx" do
  label "nginx"
  yardstick
  needs "nginx", "wrk", "taskset"
  serve do |port, _rackup|
    place = Dir.mktmpdir("bench-nginx")
    File.write("#{place}/nginx.conf", <<~CONF)
      daemon off; user root; worker_processes 1; pid #{place}/pid; error_log #{place}/log;
      events { worker_connections 4096; }
      http {
        access_log off; sendfile on; tcp_nopush on; keepalive_requests 100000000;
        server {
          listen 127.0.0.1:#{port} backlog=4096;
          location = /hello { return 200 "Hello, World!"; }
          location = /file { alias #{params.fetch(:file)}; }
        }
      }
    CONF
    ["nginx", "-p", place, "-e", "#{place}/log", "-c", "#{place}/nginx.conf"]
  end
end
