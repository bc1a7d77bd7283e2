# frozen_string_literal: true

module Bench
  # The order of pages: the articles' own tables, then what the articles only claim, then the field
  # of today. A table that is not named here comes last.
  TABLES = %w[a3 a4 a5 a7 a8 b1 b2 b3 c3 c3_sleep c4 c5 c6 d1 d2 e2 e3 e3_pool e4 e4_ab e5 rails
              f1 f2 f3 f6 g1 g2 g8 i2 i3 i5 i6 i8 i9 schedulers threaded timers idle words s1 s2 s3
              s4 s10 s5 s6 s7 s8 s9 j1 j2 j3 j4 pages t1 t2 t3 t4 t5 t6].freeze
end
