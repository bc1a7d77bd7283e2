# frozen_string_literal: true

# What a script starts with `&` ignores INT, and so would every program that a test starts and ends
# by it.
trap("INT", "DEFAULT")
