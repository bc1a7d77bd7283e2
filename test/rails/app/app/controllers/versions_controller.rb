# frozen_string_literal: true

# Uses classes that a test writes and changes (APP_CLASSES).
class VersionsController < ApplicationController
  def show
    first = Version::NUMBER
    sleep 0.01
    render(plain: [first, Version::NUMBER, Version.number].uniq.join(" "))
  end
end
