# frozen_string_literal: true

# fork and a pipe by hand, as the article does it.
Bench.runtime "processes" do
  label "processes (fork)"
  spawn(&:call)
end
