# frozen_string_literal: true

# One answer over one epoll loop in plain C: what the kernel allows.
Bench.runtime "c_server" do
  label "plain C epoll"
  needs "wrk", "taskset"
  compiled "c_http"
  serve do |port, _rackup|
    [File.expand_path("../../tmp/rivals/c/c_http", __dir__), "server", port.to_s]
  end
end
