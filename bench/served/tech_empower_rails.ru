# frozen_string_literal: true

require_relative "rails/application"
run TechEmpowerRails
