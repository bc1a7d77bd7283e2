# frozen_string_literal: true

require_relative "work"

module Tracing
  # A span of any vendor. `kind` is :server, :client or :part; the token and the name of a client's
  # are in the path that it calls. `echo`: what the service got, as trace and parent.
  Span = Struct.new(:trace, :id, :parent, :name, :token, :kind, :echo, :error, keyword_init: true)

  # Compares the spans of all requests with what the requests did.
  class Check
    # What a request was sent with: trace and parent, or nils.
    Sent = Struct.new(:token, :kinds, :trace, :parent)

    # Calls that send no ids.
    DATABASE = /\A(sql|cache)/
    # The token of the request that waits for the end of all tasks.
    IDLE = "idle"

    # @return [Array<String>] one line for each thing that is wrong
    attr_reader :wrong

    # @param spans [Array<Span>]
    # @param sent [Array<Sent>]
    # @param databases [Boolean] whether queries are spans that say which
    def initialize(spans, sent, databases: true)
      @databases = databases
      @wrong = []
      @by_id = spans.to_h { |span| [span.id, span] }
      @wrong << "#{spans.size - @by_id.size} ids are used twice" if @by_id.size < spans.size
      @known, unknown = spans.reject { |span| span.token == IDLE }.partition(&:token)
      @by_token = @known.group_by(&:token)
      sent.each { |request| check(request) }
      unknown.each { |span| check_unknown(span) }
      check_traces
      extra = @by_token.keys - sent.map(&:token)
      @wrong << "spans of #{extra.size} tokens that nobody sent: #{extra.first(3)}" if extra.any?
    end

    # @return [Integer] spans that bear a token
    def size = @known.size

    private

    def check(request)
      spans = @by_token[request.token] || []
      server = only(spans.select { |span| span.kind == :server }, "server", request.token) or return
      traces = spans.map(&:trace).uniq
      note(request.token, "has #{traces.size} traces") if traces.size > 1
      check_root(server, request)
      check_error(server, request)
      top = request.kinds == :fail ? server : only_work(spans, server) or return
      @top = top
      check_parts(spans, request)
    end

    def check_root(server, request)
      return note(request.token, "is not a root: #{server}") if !request.trace && server.parent

      note(request.token, "is not in the trace that was sent: #{server}") if
        request.trace && [server.trace, server.parent] != [request.trace, request.parent]
    end

    def only_work(spans, server)
      work = only(spans.select { |span| span.name == "work" }, "work", server.token) or return
      note(work.token, "work is not a child of the request: #{work}") if work.parent != server.id
      work
    end

    # What fails says so in the span of its own request.
    def check_error(server, request)
      expected = "boom #{request.token}" if request.kinds == :fail
      note(request.token, "has the error #{server.error.inspect}") if server.error != expected
    end

    def check_parts(spans, request)
      expected = Tracing.expected(request.kinds)
      names = spans.select { |span| span.kind == :part }.map(&:name) - %w[work]
      note(request.token, "has #{names.sort} instead of #{expected.keys.sort}") if
        names.sort != expected.keys.sort
      spans.each { |span| check_part(span, expected, spans) if expected.key?(span.name) }
    end

    def check_part(span, expected, spans)
      parent = @by_id[span.parent]
      if span.kind == :client
        return if parent&.kind == :part && parent.name == span.name && parent.token == span.token

        return note(span.token, "a call of another: #{span} in #{parent}")
      end
      right = expected[span.name] == "suspended1" ? parent&.name == "suspended1" : parent == @top
      note(span.token, "#{span.name} is in #{parent.inspect}") unless
        right && parent.token == span.token
      check_call(span, spans) unless span.name == "suspended1"
    end

    def check_call(span, spans)
      return if !@databases && span.name.match?(DATABASE)

      calls = spans.select { |one| one.kind == :client && one.name == span.name }
      call = only(calls, "call in #{span.name}", span.token) or return
      note(span.token, "the service got #{span.echo} of #{call}") if
        span.echo != ([call.trace, call.id] unless span.name.match?(DATABASE))
    end

    # Such as that of a connection: in the trace of its parent.
    def check_unknown(span)
      parent = @by_id[span.parent]
      @wrong << "belongs to nothing: #{span}" if parent&.trace != span.trace
    end

    def check_traces
      shared = @known.group_by(&:trace).transform_values { |spans| spans.map(&:token).uniq }
        .select { |_, tokens| tokens.size > 1 }
      @wrong << "traces of several requests: #{shared.first(3)}" if shared.any?
    end

    def only(spans, what, token)
      return spans.first if spans.size == 1

      note(token, "#{spans.size} spans of kind #{what}")
      nil
    end

    def note(token, text) = @wrong << "#{token}: #{text}"
  end
end
