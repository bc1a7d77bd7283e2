# frozen_string_literal: true

module NB
  # The settings of config/neverblock.rb and config/puma.rb.
  class Doctor
    check "config", applies: ->(project) { project.file?("config/neverblock.rb") } do |project|
      next unless project.complaint

      problem "config/neverblock.rb: #{project.complaint}",
              cure: "docs/SERVER.md lists its settings"
    end

    check "puma", applies: ->(project) { project.file?("config/puma.rb") } do |project|
      next unless project.lines(/plugin\s*\(?\s*:neverblock/, "config/puma.rb").any?

      project.lines(/fiber_per_request/, "config/puma.rb").each do |line|
        problem "#{line}: Puma resumes a fiber that waits as if it had ended",
                cure: "delete the line: with the plugin every request has a fiber"
      end
      project.lines(/^\s*threads\b/, "config/puma.rb").each do |line|
        note "#{line} has no effect with the plugin: requests run in fibers",
             cure: "NEVERBLOCK_FIBERS=256 sets how many; keep `threads` for the day you go back"
      end
    end
  end
end
