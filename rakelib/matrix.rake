# frozen_string_literal: true

namespace :matrix do
  desc "Fork beside every kind of wait, with every end of the child, wherever a loop runs"
  task fork: :compile do
    %w[run thread server worker guest].product(%w[epoll poll]) do |place, backend|
      next if [place, backend] == %w[guest poll] # a guest needs a backend with an fd

      sh({"NB_BACKEND" => backend}, RbConfig.ruby, "-W0", "-Ilib", "test/matrix/fork.rb", place)
    end
  end

  desc "Send servers signals in every phase of their life, so many rounds: [rounds, seed]"
  task :stop, %i[rounds seed] => :compile do |_, arguments|
    ruby "-Ilib", "-Itest", "test/server/stop/run.rb", *arguments.to_a
  end

  desc "Interrupt every kind of statement in every library; [threads]: the libraries by themselves"
  task :interrupted, [:world] => :compile do |_, arguments|
    ruby "-Ilib", "-Itest", "test/interrupted/run.rb", *arguments.to_a
  end
end
