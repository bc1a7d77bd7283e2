# frozen_string_literal: true

require_relative "crowd"

# Frameworks and libraries in which requests run, as they are.
class FrameworksTest < Minitest::Test
  include Crowd

  def test_sinatra
    skip_without "sinatra/base"
    meeting = @meeting
    app = Class.new(Sinatra::Base) do
      set :environment, :production
      set :host_authorization, {}
      before { @token = params["token"] }
      get("/") { [@token, meeting.wait(@token), @token, params["token"]].join(" ") }
    end
    crowd(app)
  end

  def test_roda
    skip_without "roda"
    meeting = @meeting
    app = Class.new(Roda) do
      route do |r|
        @token = r.params["token"]
        r.root { [meeting.wait(@token), @token, request.params["token"]].join(" ") }
      end
    end
    crowd(app.freeze.app)
  end

  def test_grape
    skip_without "grape"
    meeting = @meeting
    app = Class.new(Grape::API) do
      format :txt
      params { requires :token, type: String }
      get "/" do
        [meeting.wait(params[:token]), params[:token], declared(params)[:token]].join(" ")
      end
    end
    crowd(app)
  end

  def test_hanami_router
    skip_without "hanami/router"
    meeting = @meeting
    app = Hanami::Router.new do
      get "/by/:token", to: lambda { |env|
        parameters = env["router.params"]
        [200, TEXT, [[meeting.wait(parameters[:token]), parameters[:token]].join(" ")]]
      }
    end
    crowd(app, path: "/by/%s")
  end

  def test_promises_of_concurrent_ruby
    require "concurrent"
    crowd(rack do |token|
      one = Concurrent::Promises.future(token) { |mine| sleep(0.001) && mine }
      two = Concurrent::Promises.future { token }.then { |mine| mine }
      [@meeting.wait(token), *Concurrent::Promises.zip(one, two).value!]
    end)
  end

  def test_thread_pools_of_concurrent_ruby
    require "concurrent"
    pool = Concurrent::FixedThreadPool.new(4)
    crowd(rack do |token|
      answer = Concurrent::IVar.new
      pool.post { answer.set(token) }
      event = Concurrent::Event.new
      latch = Concurrent::CountDownLatch.new(2)
      2.times { pool.post { latch.count_down } }
      Concurrent::ScheduledTask.execute(0.001) { event.set }
      [@meeting.wait(token), answer.value, event.wait && latch.wait && token]
    end)
  ensure
    pool&.shutdown
  end

  def test_a_timer_task_of_concurrent_ruby
    require "concurrent"
    runs = Concurrent::AtomicFixnum.new
    task = Concurrent::TimerTask.execute(execution_interval: 0.005) { runs.increment }
    crowd(rack do |token|
      before = runs.value
      sleep(0.001) until runs.value > before
      [@meeting.wait(token), token]
    end)
  ensure
    task&.shutdown
  end

  def test_locks_of_concurrent_ruby
    require "concurrent"
    map = Concurrent::Map.new
    lock = Concurrent::ReentrantReadWriteLock.new
    places = Concurrent::Semaphore.new(3)
    crowd(rack do |token|
      kept = map.compute_if_absent(token) { token }
      @meeting.wait(token)
      places.acquire
      mine = lock.with_read_lock { sleep(0.001) && kept }
      places.release
      [token, mine, Concurrent::FiberLocalVar.new(token).value]
    end)
  end
end
