# frozen_string_literal: true

module Bench
  # The shares that `ab` prints: metric => what the column is called. 100 % is the longest.
  AB_SHARES = [50, 66, 75, 80, 90, 95, 98, 99].to_h { |share| ["p#{share}_ms", "#{share} %"] }
                                              .merge("longest_ms" => "100 %").freeze
end
