# frozen_string_literal: true

require "minitest/autorun"
require "tmpdir"
require "support/http_servers"
require "support/program"

# The orders of examples/rails, as its README tells: with Solid Queue, and in the server itself.
class ShopOrdersTest < Minitest::Test
  SHOP = File.join(Program::ROOT, "examples", "rails")
  # A customer who orders the first product, and looks until the services have been asked.
  CUSTOMER = <<~'RUBY'
    customer = ActionDispatch::Integration::Session.new(Rails.application)
    NB.run do
      customer.get "/products/1"
      token = customer.response.body[/name="authenticity_token" value="([^"]+)/, 1]
      customer.post "/products/1/orders", params: { authenticity_token: token }
      begin
        customer.get customer.response.location || customer.request.path
        puts customer.response.body[/A job asks/]
        sleep 0.05
      end while customer.response.body.include?("refresh")
      puts customer.response.body[/<main>.*Back/m].gsub(/<[^>]+>/, "").split.join(" ")
    end
  RUBY

  # What its worker runs jobs in.
  POOL = 'puts SolidQueue::Process.find_by(kind: "Worker").metadata["pool_type"]'

  def setup
    there = Gem::Specification.find_all_by_name("solid_queue").any?
    skip("Solid Queue needs a later Ruby") unless there
  end

  def test_solid_queue_runs_the_jobs_of_the_orders
    shop("QUEUE" => "solid_queue") do |environment|
      pid = Process.spawn(environment, *Program::NB, "jobs", "solid_queue",
                          chdir: SHOP, pgroup: true, %i[out err] => @log)
      out = rails(environment, "orders[40]")
      assert_match(/\A40 orders, their jobs done after [\d.]+ s\n\z/, out)
      assert_equal "fiber\n", rails(environment, "runner", POOL)
      Process.kill(:TERM, pid)
      assert_predicate Process.wait2(pid).last, :success?, File.read(@log)
      pid = nil
    ensure
      Process.kill(:KILL, -pid) if pid
    end
  end

  def test_a_customer_sees_what_the_job_found_out
    shop do |environment|
      out = rails(environment, "runner", CUSTOMER)
      assert_match(/\A(A job asks\n)+\n?Order 1: Enamel lantern It is in stock, and arrives/, out)
    end
  end

  private

  def shop(more = {})
    Dir.mktmpdir("nb-shop") do |folder|
      @log = "#{folder}/log"
      environment = {
        "SERVICES" => "http://127.0.0.1:#{HTTPServers.plain.port}", "RAILS_ENV" => "production",
        "SHOP_DATABASE" => "#{folder}/shop.sqlite3", "RUBYLIB" => File.join(Program::ROOT, "lib"),
        "GEM_HOME" => Gem.dir, "GEM_PATH" => Gem.path.join(":"), **more
      }
      rails(environment, "db:prepare")
      yield environment
    end
  end

  # @return [String] what it wrote to stdout
  def rails(environment, *words)
    command = [*Program::RUBY, "bin/rails", *words]
    out, errors, status = Open3.capture3(environment, *command, chdir: SHOP)
    assert_predicate status, :success?, out + errors
    out
  end
end
