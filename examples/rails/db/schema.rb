# frozen_string_literal: true

ActiveRecord::Schema[7.2].define(version: 2) do
  create_table :products do |table|
    table.string :name, :picture, null: false
    table.text :description, null: false
    table.integer :cents, :hue, null: false
  end

  create_table :orders do |table|
    table.references :product, null: false, index: true
    table.boolean :in_stock, :tomorrow
    table.timestamps
  end

  create_table :reviews do |table|
    table.references :product, null: false, index: true
    table.integer :stars, null: false
    table.text :text, null: false
  end
end
