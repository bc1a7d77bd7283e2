# frozen_string_literal: true

require "never_block"
NB::DB::FMysql # loads the driver, and says so when it is not there
