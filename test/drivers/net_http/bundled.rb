# frozen_string_literal: true

if ARGV.delete("bundled") # the versions that Ruby brings, whatever else is installed
  %w[net-protocol net-http].each do |name|
    gem name, Gem::Specification.find_all_by_name(name).find(&:default_gem?).version.to_s
  end
end
require "net/http"
