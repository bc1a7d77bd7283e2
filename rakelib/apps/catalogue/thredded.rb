# frozen_string_literal: true

module Apps
  # A forum, with the accounts of Devise, in an application of its own.
  class Thredded < Application
    # The compiler of its scripts calls JSON as it was before version 3.
    GEMS = { "thredded" => "1.2.1", "devise" => "~> 4.9", "dartsass-sprockets" => "~> 3.2",
             "json" => "< 3" }.freeze

    def label = "Thredded with Devise"
    def version = GEMS["thredded"]

    def make(workshop)
      workshop.generate("~> 8.0.0", GEMS, "-d", "postgresql", "--skip-javascript")
      workshop.sprockets
      workshop.run("bundle", "install", "--quiet")
      ["devise:install", "devise User name:string admin:boolean", "thredded:install"].each do |word|
        workshop.run("bundle", "exec", "rails", "generate", *word.split)
      end
      workshop.run("bundle", "exec", "rails", "thredded:install:migrations")
      configure(workshop)
      workshop.run("bundle", "exec", "rails", "assets:precompile")
    end

    def setup = ["bundle exec rails db:migrate"]

    def seeds
      <<~RUBY
        Rails.application.config.active_job.queue_adapter = :inline
        (1..#{VISITORS}).each do |number|
          name = format("visitor%02d", number)
          User.create!(name: name, email: name + "@example.com", password: #{PASSWORD.inspect})
        end
        author = User.create!(name: "Author", email: "author@example.com", admin: true,
                              password: #{PASSWORD.inspect})
        group = Thredded::MessageboardGroup.create!(name: "All")
        %w[Cooking Baking Eating].each do |name|
          board = Thredded::Messageboard.create!(name: name, description: name, group: group)
          8.times do |number|
            topic = Thredded::Topic.create!(messageboard: board, user: author,
                                            title: "\#{name} \#{number}")
            6.times do |post|
              topic.posts.create!(messageboard: board, user: author, created_at: 1.year.ago + post,
                                  content: "**\#{name}** with \#{post} onions\\n\\n- a\\n- b")
            end
          end
        end
        Thredded::Topic.update_all(last_post_at: 1.year.ago, created_at: 1.year.ago)
      RUBY
    end

    def enter(visitor)
      visitor.submit("/users/sign_in", /sign_in/, "user[email]" => "#{visitor.name}@example.com",
                                                  "user[password]" => PASSWORD)
    end

    def paths = %w[/forum/ /forum/cooking /forum/cooking/cooking-1 /forum/private-topics]

    # Lists show what a visitor has read.
    def masks
      { /\bthredded--(topic-)?(un)?read\b/ => "-", / data-unread="true"/ => "",
        /\d+ unread of/ => "-",
        %r{(?<=/users/)\d+|(?<=/avatar/)\h+} => "-" }
    end

    def own_page = "/users/edit"
    def avoid = %r{sign_|/users/|/admin/|q=|/follow|/unfollow|/unread}

    def write(visitor, text)
      visitor.submit("/forum/baking/topics/new", %r{/forum/baking\z},
                     "topic[title]" => text, "topic[content]" => "**Why** not?")
    end

    def written
      "SELECT users.name, title FROM thredded_topics JOIN users ON users.id = user_id"
    end

    private

    def configure(workshop)
      workshop.write("config/initializers/zz_forum.rb", <<~RUBY)
        Thredded.currently_online_enabled = false
        Thredded.email_from = "forum@example.com"
        Rails.application.config.action_mailer.delivery_method = :test
        Rails.application.config.action_mailer.default_url_options = { host: "localhost" }
      RUBY
      workshop.write("config/routes.rb", <<~RUBY)
        Rails.application.routes.draw do
          get "up" => "rails/health#show"
          devise_for :users
          mount Thredded::Engine => "/forum"
          root to: redirect("/forum")
        end
      RUBY
    end
  end
end
