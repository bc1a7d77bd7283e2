# frozen_string_literal: true

# Plain C over epoll: what the kernel allows.
Bench.runtime "c" do
  label "plain C epoll"
  compiled "c_echo", "c_http"
  in_c
  yardstick
end
