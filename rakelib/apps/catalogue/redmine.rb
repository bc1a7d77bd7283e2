# frozen_string_literal: true

module Apps
  # Project management: issues, wikis, forums, calendars; two decades of Rails.
  class Redmine < Application
    def label = "Redmine"
    def version = "6.0.5"
    def database = :mariadb

    # Its Gemfile stops before Ruby 3.4, with which it runs.
    def make(workshop)
      workshop.unpack("redmine", "#{version}+ds-1")
      workshop.edit("Gemfile") { |text| text.sub(/^ruby .*/, "") }
      workshop.write("Gemfile.local", "gem \"puma\"\n")
    end

    # The fixtures of its own tests are something to look at.
    def setup = ["bundle exec rails db:migrate", "bundle exec rails db:fixtures:load"]

    def seeds
      <<~RUBY
        Setting.notified_events = []
        (1..#{VISITORS}).each do |number|
          name = format("visitor%02d", number)
          user = User.new(firstname: name, lastname: "Guest", mail: name + "@example.com",
                          language: "en", password: #{PASSWORD.inspect},
                          password_confirmation: #{PASSWORD.inspect})
          user.login = name
          user.save!
          Member.create!(principal: user, project: Project.find(1), roles: [Role.find(1)])
        end
      RUBY
    end

    def enter(visitor)
      visitor.submit("/login", /login/, "username" => visitor.name, "password" => PASSWORD)
    end

    def paths
      %w[/projects/ecookbook /projects/ecookbook/issues /issues/1 /projects/ecookbook/wiki /my/page
         /projects/ecookbook/roadmap /projects/ecookbook/boards /projects/ecookbook/issues/gantt
         /issues /projects /news /projects/ecookbook/search?q=recipe]
    end

    # It remembers filters and orders for the pages that follow. MariaDB is free to list files of
    # the same second in any order.
    def avoid
      %r{/logout|/login|lost_password|register|/attachments/|repository|\.pdf|\.png|/admin|key=|
         set_filter|sort=|query_id|gantt\?|/files\z}x
    end

    # The last one is for the list of projects that the visitor has seen.
    def masks
      { %r{(/users/|user-|assigned_to_id=|author_id=)\d+} => '\1-',
        /((?:key=|reset_)\h{40})/ => "-", /(?<=form-)\h{8}/ => "-",
        /(?<=-)\h{8}(?=" method)/ => "-",
        /(?<=avatar-color-)\d+/ => "-", /(\bvalue=")\d+(">(?:&lt;&lt; me|visitor))/i => '\1-\2',
        /<div id="project-jump".*/ => "-" }
    end

    # Its pages compute for long.
    def looks = 8
    def own_page = "/my/account"

    def write(visitor, text)
      visitor.submit("/projects/ecookbook/issues/new", %r{/issues\z}, "issue[subject]" => text)
    end

    def written
      "SELECT login, subject FROM issues JOIN users ON users.id = issues.author_id"
    end
  end
end
