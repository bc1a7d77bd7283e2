# frozen_string_literal: true

module Apps
  # What Rails itself generates: a new application with a sign-in and a scaffold.
  class Blog < Application
    def label = "A new application with the sign-in and scaffold of Rails"
    def version = "8.1"

    def make(workshop)
      workshop.generate("~> 8.1.0", {}, "-d", "postgresql")
      workshop.run("bundle", "install", "--quiet")
      ["importmap:install", "turbo:install", "generate authentication",
       "generate scaffold post title body:text author"].each do |words|
        workshop.run("bundle", "exec", "rails", *words.split)
      end
      change(workshop)
      workshop.run("bundle", "exec", "rails", "assets:precompile")
    end

    def setup = ["bundle exec rails db:migrate"]

    def seeds
      <<~RUBY
        (1..#{VISITORS}).each do |number|
          User.create!(email_address: format("visitor%02d@example.com", number),
                       password: #{PASSWORD.inspect})
        end
        30.times { |number| Post.create!(title: "Post \#{number}", body: "text " * 50, author: "nobody") }
      RUBY
    end

    def enter(visitor)
      visitor.submit("/session/new", %r{/session\z},
                     "email_address" => "#{visitor.name}@example.com", "password" => PASSWORD)
    end

    def paths = %w[/posts /posts/1 /posts/2 /posts/new]
    def avoid = %r{/session|/passwords}
    def own_page = "/posts/new" # the list has the names of all authors

    def write(visitor, text)
      visitor.submit("/posts/new", %r{/posts\z}, "post[title]" => text, "post[body]" => "mine")
    end

    # The author is what Current said.
    def written = "SELECT split_part(author, '@', 1), title FROM posts WHERE author <> 'nobody'"

    private

    def change(workshop)
      workshop.edit("config/routes.rb") { |text| text.sub(/^end/, "  root \"posts#index\"\nend") }
      # It counts addresses, and here all visitors have the same.
      workshop.edit("app/controllers/sessions_controller.rb") do |text|
        text.sub(/^  rate_limit.*\n/, "")
      end
      workshop.edit("app/controllers/posts_controller.rb") do |text|
        text.sub("Post.new(post_params)",
                 "Post.new(post_params.merge(author: Current.user.email_address))")
      end
      workshop.edit("app/views/layouts/application.html.erb") do |text|
        text.sub("<body>", "<body>\n    <p><%= Current.user&.email_address %></p>")
      end
    end
  end
end
