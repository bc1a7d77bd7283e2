# frozen_string_literal: true

module NB
  class Page
    # The page at a path in front of an application: `nb serve --page`.
    #
    # @api private
    class Mount
      # @param app [#call]
      # @param path [String] such as /neverblock
      # @param page [Page]
      def initialize(app, path, page)
        @app = app
        @path = path
        @page = page
      end

      # @param env [Hash]
      # @return [Array(Integer, Hash, #each)]
      def call(env)
        path = env["PATH_INFO"]
        return @app.call(env) unless path.start_with?(@path)

        rest = path.delete_prefix(@path)
        return @app.call(env) unless rest.empty? || rest.start_with?("/")

        @page.call(env.merge("SCRIPT_NAME" => "#{env["SCRIPT_NAME"]}#{@path}", "PATH_INFO" => rest))
      end
    end
  end
end
