# frozen_string_literal: true

# Plain C over epoll: what the kernel allows.
Bench.runtime "c" do
  label "plain C epoll"
  programs "wakes" => "c_echo", "tcp_echo" => "c_echo", "http_server" => "c_http",
           "tcp_echo_external" => "c_echo", "http_server_external" => "c_http"
end
