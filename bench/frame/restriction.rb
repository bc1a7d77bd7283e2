# frozen_string_literal: true

module Bench
  # What `--where` leaves of the tables that were named. A restriction that a table cannot obey
  # would measure all of it, or nothing, without a word.
  module Restriction
    module_function

    # @param tables [Array<Table>]
    # @param where [Hash{String => Array<String>}] axis => values to keep
    # @param named [Boolean] whether the user named the tables
    # @return [void]
    # @raise [Bench::Misuse] one sentence
    def check(tables, where, named:)
      return if where.empty?

      where.each { |axis, values| check_values(tables, axis, values) }
      tables.each { |table| check_table(table, where, named) }
      nil
    end

    def check_values(tables, axis, values)
      known = tables.flat_map { |table| values_of(table, axis) }.uniq
      strange = values - known
      return if strange.empty?

      ids = tables.map(&:id).join(", ")
      found = known.empty? ? "no such axis" : "#{axis}=#{known.join(",")}"
      raise Misuse, "--where #{axis}=#{strange.join(",")}: #{ids} has #{found}"
    end

    def check_table(table, where, named)
      mine = where.select { |axis, _| values_of(table, axis).any? }
      axes = table.axes.map(&:name)
      raise Misuse, "--where restricts nothing of #{table.id}: its axes are #{axes.join(", ")}" if
        named && mine.empty?

      mine.each do |axis, values|
        next if (values_of(table, axis) & values).any?

        raise Misuse, "--where #{axis}=#{values.join(",")} leaves nothing of #{table.id}: it has " \
                      "#{axis}=#{values_of(table, axis).join(",")}"
      end
    end

    def values_of(table, axis)
      found = table.axes.find { |one| one.name.to_s == axis }
      found ? found.values.map(&:to_s) : []
    end
  end
end
