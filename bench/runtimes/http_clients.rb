# frozen_string_literal: true

# Plain Ruby with the HTTP clients that people use.
Bench.runtime "http_clients" do
  label "HTTP clients"
  gems do |version|
    newer = version >= Gem::Version.new("3.3")
    { "curb" => "1.4.1", "httpx" => "1.9.0", "typhoeus" => "1.7.1", "em-http-request" => "1.1.7",
      "http" => newer ? "6.0.4" : "5.3.1", "excon" => newer ? "1.11.0" : "1.6.0",
      "patron" => newer ? "1.0.0" : "0.14.0", "async-http" => newer ? "0.105.0" : "0.88.0" }
  end
end
