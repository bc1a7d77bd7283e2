# frozen_string_literal: true

# Puma's configuration with our plugin, as its page shows it.
threads 1
plugin :neverblock
