# frozen_string_literal: true

# No Bundler here: GEM_HOME says where the gems are.
