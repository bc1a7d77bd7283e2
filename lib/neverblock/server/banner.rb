# frozen_string_literal: true

require_relative "../version"

module NB
  class Server
    # The text printed at startup: the listeners, the sizes, and warnings about limits of the
    # machine that are too low.
    #
    # @api private
    module Banner
      # Fewer fibers than this are probably a `threads` line copied from Puma: the text warns of it.
      FEW = 64
      private_constant :FEW

      module_function

      # @return [String] the text: listeners, sizes, warnings
      def text(config, addresses, options)
        count = config.worker_count
        who = count.zero? ? "one process" : "#{count} workers, each"
        ruby = "Ruby #{RUBY_VERSION}#{" +YJIT" if yjit?}"
        lines = ["NeverBlock #{VERSION} (#{ruby}) pid #{Process.pid}"]
        addresses.each { |address| lines << "* listening on #{address}" }
        lines << "* #{who} with #{options[:fibers]} fibers, a queue of #{options[:queue]} and " \
                 "#{options[:connections]} connections; environment #{config.environment}"
        lines << "* page at #{config.page_at.first}/" if config.page_at
        (lines + warnings(config, options).map { |line| "! #{line}" }).join("\n") << "\n"
      end

      # @return [Array<String>] limits of the machine and the configuration that are too low, each
      #   with the cure
      def warnings(config, options)
        [fd_warning(options), backlog_warning(options), threads_warning(config, options)].compact
      end

      # @return [String, nil] the warning if the process may open too few files
      def fd_warning(options)
        limit = Process.getrlimit(:NOFILE).first
        return if limit >= options[:connections] + 64

        "the fd limit is #{limit}: too low for #{options[:connections]} connections (ulimit -n)"
      end

      # @return [String, nil] the warning if the kernel shortens the listen queue
      def backlog_warning(options)
        limit = Integer(File.read("/proc/sys/net/core/somaxconn"))
        wanted = options[:backlog]
        return "net.core.somaxconn is #{limit}: it lowers the backlog of #{wanted}" if
          wanted && limit < wanted

        "net.core.somaxconn is #{limit}: in a burst, clients need a second more to connect" if
          wanted.nil? && limit < 1024
      rescue SystemCallError
        nil
      end

      # A line of config/puma.rb that means something else here.
      #
      # @return [String, nil] the warning if `threads` limits the requests to so few
      def threads_warning(config, options)
        most = config.threads_most
        return unless most && most < FEW && options[:fibers] == most

        "threads: only #{most} requests run at a time: delete the line, or set fibers"
      end

      def yjit? = defined?(RubyVM::YJIT) && RubyVM::YJIT.enabled?
    end
  end
end
