# frozen_string_literal: true

# The smallest application, for the table of start-up times.
run ->(_env) { [200, { "content-type" => "text/plain", "content-length" => "2" }, ["ok"]] }
