# frozen_string_literal: true

# One answer over one epoll loop in plain C: what the kernel allows.
Bench.runtime "c_server" do
  label "plain C epoll"
  needs "wrk", "taskset"
  compiled "c_http"
  yardstick
  serve { |port, _rackup| [Bench::Compiled.program("c_http"), "server", port.to_s] }
end
