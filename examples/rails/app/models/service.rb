# frozen_string_literal: true

require "net/http"

# Another company's machine, reached by plain Net::HTTP. SERVICES names `nb delayd`, which stands
# for both and takes as long as it is asked to.
class Service
  WAREHOUSE = 80
  PARCELS = 120

  def self.warehouse = ask("warehouse", WAREHOUSE)
  def self.parcels = ask("parcels", PARCELS)

  def self.ask(name, milliseconds)
    uri = URI("#{ENV.fetch("SERVICES", "http://127.0.0.1:9393")}/#{name}?ms=#{milliseconds}")
    Net::HTTP.get_response(uri).is_a?(Net::HTTPSuccess)
  rescue SystemCallError
    false # the page says so
  end
end
