# frozen_string_literal: true

require_relative "../support/transparency"
require "bcrypt"

# bcrypt computes on a native thread, and other fibers go on.
class BcryptTest < Transparency
  library "bcrypt", group: "Passwords", gems: %w[bcrypt],
          cure: "it computes on native threads (3.1.18 and later)"

  SALT = BCrypt::Engine.generate_salt(12)
  # Costs some ten milliseconds.
  SHORT = BCrypt::Engine.generate_salt(8)

  waits "hashing a password, while others sleep" do
    NB.offload { nil } # starts the thread
    measure(count: 4) { |i| i.zero? ? BCrypt::Engine.hash_secret("secret", SHORT) : sleep(0.1) }
  end

  fails "a salt that is none" do
    BCrypt::Engine.hash_secret("x", "y")
  end

  # @return [Integer] how often another fiber had its turn during the block
  def turns
    NB.run do
      count = 0
      NB.async(background: true) { sleep(0.001) && count += 1 while true }
      yield
      count
    end
  end

  def test_other_fibers_go_on
    assert_operator turns { BCrypt::Password.create("x", cost: 12) }, :>, 5
    hash = BCrypt::Password.create("x", cost: 12)
    assert_operator turns { hash == "x" }, :>, 5
  end

  def test_what_comes_is_what_comes_without_a_loop
    plain = BCrypt::Engine.hash_secret("secret", SALT)
    assert_equal [plain] * 3,
                 NB.run { NB.gather(*[-> { BCrypt::Engine.hash_secret("secret", SALT) }] * 3) }
    assert_equal [true, false], NB.run { %w[secret other].map { |one| BCrypt::Password.new(plain) == one } }
    assert_raises(BCrypt::Errors::InvalidSalt) { NB.run { BCrypt::Engine.hash_secret("x", "y") } }
  end

  def test_a_timeout_leaves_the_computing_alone
    assert_raises(Timeout::Error) do
      NB.run { Timeout.timeout(0.005) { BCrypt::Engine.hash_secret("secret", SALT) } }
    end
  end
end
