# frozen_string_literal: true

module NB
  class Server
    # The environment and the folder that this program was started with. At USR2 they are those of
    # the next one, whatever the application has made of them.
    #
    # @api private
    class Origin
      # @return [String, nil] the folder under the name by which the program was started: if that is
      #   a link (as `current` in a deployment), the next program starts where it points by then
      attr_reader :folder

      # @param environment [Hash{String=>String}]
      def initialize(environment)
        @folder = folder_of(environment["PWD"].to_s)
        @environment = linked(environment.to_h)
      end

      # Restores the environment for the time of the block, in which another program is executed.
      #
      # @param further [Hash{String=>String}] what that gets besides
      # @yield may change it further
      # @return what the block returns, if it does
      def restore(further = {})
        before = ENV.to_h
        ENV.replace(@environment.merge(further))
        yield
      ensure
        ENV.replace(before)
      end

      private

      def folder_of(name)
        here = Dir.pwd
        name.start_with?("/") && File.identical?(name, here) ? name : here
      rescue SystemCallError
        nil # it was removed
      end

      # Bundler has found the Gemfile by the folder's own name: that of the next one is meant.
      def linked(environment)
        here, gemfile = @folder && Dir.pwd, environment["BUNDLE_GEMFILE"].to_s
        return environment if @folder == here || !gemfile.start_with?("#{here}/")

        environment.merge("BUNDLE_GEMFILE" => File.join(@folder, gemfile.delete_prefix(here)))
      end
    end
  end
end
