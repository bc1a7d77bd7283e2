# frozen_string_literal: true

require "net/http"
require "vcr"
require "webmock/rspec"
require "neverblock/rspec"

VCR.configure do |config|
  config.hook_into :webmock
  config.cassette_library_dir = ENV.fetch("CASSETTES")
  config.configure_rspec_metadata!
end
WebMock.disable_net_connect!

# What rspec_test.rb runs and judges.
RSpec.describe "in virtual time", clock: :virtual do
  let(:slow) { sleep(3600) && :slow }
  before { sleep(3600) && @in_loop = NB.running? }
  after { sleep(3600) }

  around do |example|
    sleep(3600)
    example.run
    expect(@in_loop).to be(true)
  end

  it("passes") { expect(NB.async { slow }.value).to eq(:slow) }
  it("fails") { expect(NB.async { slow }.value).to eq(:fast) }
  it("raises") { raise IOError, "no such page" }
  it("is skipped") { sleep(3600) && skip("later") }
  it("times out") { Timeout.timeout(3600) { sleep } }
  it("has a failing task") { NB.async(name: "mailer") { raise IOError, "not delivered" } }
  it("has a failing expectation in a task") { NB.async { expect(1).to eq(2) } && sleep(1) }
  it("leaves a task behind") { NB.async(name: "forgotten") { sleep } }
  it("has background work") { NB.every(60) { nil } && sleep(3599) }

  it "fails and leaves a task behind" do
    NB.async { sleep }
    raise "first"
  end

  it "uses WebMock" do
    stub_request(:get, "http://example.com/").to_timeout.then.to_return(body: "hello")
    page = NB.retry(times: 2, wait: 3600, on: Net::OpenTimeout) do
      NB.async { Net::HTTP.get(URI("http://example.com/")) }.value
    end
    expect(page).to eq("hello")
  end

  it "uses VCR", vcr: { cassette_name: "page" } do
    pages = NB.gather(-> { Net::HTTP.get(URI("http://example.com/page")) })
    expect(pages).to eq(["recorded"])
  end

  it "uses doubles" do
    clock = double("clock")
    allow(clock).to receive(:now) { slow }
    expect(NB.async { clock.now }.value).to eq(:slow)
  end
end

# The second is to know nothing of the first.
RSpec.describe "one after the other", clock: :virtual, order: :defined do
  it("has a failing task before") { NB.async(name: "earlier") { raise IOError } }
  it("deadlocks") { Thread::Queue.new.pop }
end

RSpec.describe "in real time", clock: :real do
  it "takes time" do
    start = Process.clock_gettime(Process::CLOCK_REALTIME)
    NB.async { sleep(0.05) }.wait
    expect(Process.clock_gettime(Process::CLOCK_REALTIME) - start).to be >= 0.049
  end
end

RSpec.describe "without metadata" do
  it("has no loop") { expect(NB).not_to be_running }
end
