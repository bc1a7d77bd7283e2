# frozen_string_literal: true

plugin :neverblock
