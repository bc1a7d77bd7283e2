# frozen_string_literal: true

module NB
  # GraphQL-Ruby runs fields and sources in fibers of its own.
  class Doctor
    check "dataloader", applies: ->(project) { project.gems.key?("graphql") } do |project|
      pattern = /\buse\b[\s(]*(::)?GraphQL::Dataloader\b(?!::)(?!.*nonblocking:\s*true)/
      project.lines(pattern).each do |line|
        problem "#{line}: it uses blocking fibers: a wait in a field or a source " \
                "stops all requests",
                cure: "use GraphQL::Dataloader::AsyncDataloader (gem async 2.25, Ruby 3.2), or " \
                      "add nonblocking: true"
      end
    end
  end
end
