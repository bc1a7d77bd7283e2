# frozen_string_literal: true

require "never_block"
NB::DB.const_get(:FMysql) # loads the driver, and says so when it is not there
