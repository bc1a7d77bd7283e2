# frozen_string_literal: true

require_relative "../../test/support/databases"

module Others
  # Databases of one suite on the PostgreSQL of our own tests.
  module PostgreSQL
    module_function

    # Makes them, without anything in them.
    # @return [Hash] what leads there, as Active Record calls it, without their name
    def renew(*names)
      place = Databases.postgresql
      commands = names.flat_map do |name|
        ["DROP DATABASE IF EXISTS #{name} WITH (FORCE)", "CREATE DATABASE #{name}"]
      end
      Databases.run(Databases.postgresql_program("psql"), place.url, "-q",
                    input: commands.join(";\n"))
      place.options.except(:database).transform_keys(&:to_s)
    end
  end
end
