# frozen_string_literal: true

ActiveSupport::IsolatedExecutionState.isolation_level = :thread
