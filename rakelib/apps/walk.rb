# frozen_string_literal: true

require_relative "masks"
require_relative "visitor"

module Apps
  # Walks through an application, link by link, and records each page; then once more as another
  # visitor. A page that is the same both times must always be the same.
  class Walk
    PAGES = 40
    # The most pages whose paths differ in numbers only, such as /issues/1 and /issues/2.
    ALIKE = 3
    # body: nil if it is not the same each time.
    Page = Struct.new(:path, :status, :body)

    attr_reader :pages
    # [Hash{String => String}] paths of pages that differ between the walks => how they differ
    attr_reader :restless

    def initialize(application, port)
      @application = application
      @masks = Masks.new(application)
      @restless = {}
      @pages = follow(visitor(1, port)).then { |first| compare(first, visitor(2, port)) }
    end

    # @return [Array<Page>] with the same body each time
    def steady = @pages.select(&:body)

    private

    def visitor(number, port)
      Visitor.new(number, port).tap { |visitor| @application.enter(visitor) }
    end

    def follow(visitor)
      waiting = @application.paths.dup
      shapes = Hash.new(0)
      pages = {}
      while pages.size < PAGES && (path = waiting.shift)
        next if pages.key?(path) || (shapes[path.gsub(/\d+/, "0")] += 1) > ALIKE

        answer = visitor.get(path)
        pages[path] = page(path, answer, visitor)
        waiting.concat(onward(visitor, answer)) if answer.html?
      end
      pages.values
    ensure
      visitor.close
    end

    def onward(visitor, answer)
      visitor.links(answer).grep_v(@application.avoid).grep_v(/#{visitor.name}/)
    end

    def page(path, answer, visitor)
      Page.new(path, answer.status, @masks.apply(answer.body, visitor))
    end

    def compare(pages, visitor)
      pages.map do |page|
        again = page(page.path, visitor.get(page.path), visitor)
        unless again.body == page.body
          @restless[page.path] = Masks.difference(page.body, again.body)
          page.body = nil
        end
        page.status = nil unless again.status == page.status
        page
      end
    ensure
      visitor.close
    end
  end
end
