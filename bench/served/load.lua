-- What wrk sends, from environment variables, and its counts as one line of JSON.

wrk.method = os.getenv("LOAD_METHOD") or "GET"
for number = 1, tonumber(os.getenv("LOAD_HEADERS") or "0") do
  wrk.headers["X-Bench-" .. number] = "value of header number " .. number
end

local bytes = tonumber(os.getenv("LOAD_BODY") or "0")
if bytes > 0 then
  wrk.body = string.rep("x", bytes)
  wrk.headers["Content-Type"] = "application/octet-stream"
end

-- So many requests are sent at once over each connection; wrk counts the answers of all.
local pipeline = tonumber(os.getenv("LOAD_PIPELINE") or "1")
if pipeline > 1 then
  local requests
  function init()
    requests = string.rep(wrk.format(), pipeline)
  end
  function request()
    return requests
  end
end

function done(summary, latency)
  local errors = summary.errors
  io.write(string.format(
    '{"requests": %d, "seconds": %.6f, "bytes": %d, "connect": %d, "read": %d, "write": %d, ' ..
    '"status": %d, "timeout": %d, "p50": %.3f, "p99": %.3f, "longest": %.3f}\n',
    summary.requests, summary.duration / 1e6, summary.bytes, errors.connect, errors.read,
    errors.write, errors.status, errors.timeout, latency:percentile(50) / 1e3,
    latency:percentile(99) / 1e3, latency.max / 1e3))
end
