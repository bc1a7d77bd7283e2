# frozen_string_literal: true

# socketry/async with io-event's epoll or io_uring selector, started as its guide says.
Bench.runtime "async" do
  label "async"
  gems do |version|
    if version >= Gem::Version.new("3.3")
      { "io-event" => "1.22.3", "async" => "2.46.0" }
    else
      # The newest that still runs on 3.1.
      { "io-event" => "1.11.2", "async" => "2.23.1" }
    end
  end
  enter do |work|
    require "async"
    Sync { work.call }
  end
end
