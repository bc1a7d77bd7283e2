# frozen_string_literal: true

module Apps
  # An application that others wrote: where it comes from, how its makers set it up, and what its
  # visitors do. Each has a file in catalogue/; they come in the order of their names.
  class Application
    PASSWORD = "correct-Horse-7battery"
    VISITORS = 50

    class << self
      # @return [Array<Application>]
      def all
        Dir["#{__dir__}/catalogue/*.rb"].each { |file| require file }
        @all.sort_by(&:name)
      end

      def inherited(application)
        super
        (@all ||= []) << application.new
      end

      # @return [String] the name of this visitor, and of nobody else
      def visitor(number) = format("visitor%02d", number)
    end

    # Its name in `rake apps[NAME]`.
    def name = self.class.name[/\w+\z/].gsub(/(?<=[a-z])(?=[A-Z])/, "_").downcase

    # @return [Symbol] :postgresql or :mariadb
    def database = :postgresql
    def adapter = database == :postgresql ? "postgresql" : "mysql2"

    # Puts the application into the folder.
    # @param workshop [Workshop]
    def make(workshop) = raise NotImplementedError, "#{self.class}#make"

    # Commands that run in the application's folder once its database is there.
    # @return [Array<String>]
    def setup = []

    # Ruby code that `rails runner` runs at the end: it makes visitors, and something to look at.
    def seeds = ""

    # Signs a visitor in.
    # @param visitor [Visitor]
    def enter(visitor) = visitor

    # Where the walk begins.
    def paths = %w[/]

    # Links that the walk does not follow.
    def avoid = /logout|sign_out/

    # What differs between visitors, or between two looks: pattern => the word that replaces it.
    def masks = {}

    # How many pages each visitor looks at.
    def looks = 20

    # Has a visitor write a text, which the page that follows has to show.
    # @param visitor [Visitor]
    # @param text [String] contains the visitor's name
    # @return [Visitor::Answer] a page that shows it
    def write(_visitor, _text) = raise NotImplementedError, "#{self.class}#write"

    # A page with the name of the signed-in visitor, and nobody else's.
    def own_page = "/"

    # @return [String, nil] SQL for each writer, as the database knows it, and the text; nil: the
    #   visitors of this application only read
    def written = nil
  end
end
