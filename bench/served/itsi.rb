# frozen_string_literal: true

# What Itsi's command line cannot say. As it ships it answers 503 when more than 30 requests wait.
ruby_thread_request_backlog_size 20_000
