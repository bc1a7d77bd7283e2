# frozen_string_literal: true

# A table into which each transfer writes its two halves, with the transaction they are in; and
# beside it, what each transfer was told. A sum alone does not show a transfer that was lost though
# told that it is done, or kept though told that it failed.
class Ledger
  # A transfer: how it ended; whether its block came to its end, where COMMIT follows; and which
  # callbacks of the transaction have run.
  Transfer = Struct.new(:told, :whole, :callbacks)

  # The number of the transaction, or NULL outside one. MariaDB's number does not tell two
  # transactions of the same connection apart, but a transfer has no reason to begin two.
  TRANSACTIONS = Hash.new("IF(@@in_transaction, CONNECTION_ID(), NULL)")
    .update("PostgreSQL" => "txid_current()").freeze

  def initialize
    @transfers = Hash.new { |all, number| all[number] = Transfer.new(nil, false, []) }
    @entries = Class.new(ActiveRecord::Base) { self.table_name = "ledger" }
    @entries.with_connection do |connection|
      connection.create_table("ledger", force: true) do |table|
        table.integer(:number) && table.integer(:amount)
        table.bigint(:transaction_number)
      end
      @transaction = TRANSACTIONS[connection.adapter_name]
    end
  end

  # @return [Transfer]
  def [](number) = @transfers[number]

  # Within the transaction.
  def write(number, amount)
    ActiveRecord::Base.with_connection do |connection|
      connection.execute("INSERT INTO ledger (number, amount, transaction_number) " \
                         "VALUES (#{number}, #{amount}, #{@transaction})")
    end
  end

  # @param transaction [ActiveRecord::Transaction]
  def follow(number, transaction)
    transaction.after_commit { self[number].callbacks << :commit }
    transaction.after_rollback { self[number].callbacks << :rollback }
  end

  # @return [Array<String>] which transfers are not as they were told, or are not whole
  def faults
    entries = @entries.all.group_by(&:number)
    @transfers.filter_map do |number, transfer|
      rows = entries.fetch(number, [])
      words = faults_of(transfer, rows)
      "#{number} #{words.join(", ")}: #{transfer.to_a} #{rows.map(&:attributes)}" if words.any?
    end
  end

  private

  def faults_of(transfer, rows)
    there = rows.any?
    done = transfer.told == :done
    words = { "in pieces" => there && !whole?(rows), "lost" => done && !there,
              "kept" => there && !done && !transfer.whole,
              "false callback" => !(transfer.callbacks - [there ? :commit : :rollback]).empty?,
              "callbacks" => transfer.callbacks.size != 1 && (done || transfer.callbacks.any?) }
    words.select { |_, wrong| wrong }.keys
  end

  def whole?(rows)
    rows.size == 2 && rows.sum(&:amount).zero? && rows.map(&:transaction_number).uniq.size == 1 &&
      rows.none? { |row| row.transaction_number.nil? }
  end
end
