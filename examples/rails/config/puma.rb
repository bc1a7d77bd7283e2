# frozen_string_literal: true

# As `rails new` sets it, but for the number of threads, which used to be 5.
threads 5, 5
port ENV.fetch("PORT", 3000)
