# frozen_string_literal: true

class CreateAccounts < ActiveRecord::Migration[7.2]
  def change
    create_table :accounts do |t|
      t.integer :balance, null: false, default: 0
      t.send(connection.adapter_name == "PostgreSQL" ? :jsonb : :text, :note)
    end
  end
end
