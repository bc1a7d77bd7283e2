# frozen_string_literal: true

# Stands for a language model behind OpenAI's interface: its answer is the question, word by word,
# one every 20 ms, as server-sent events.
#
# Run: nb serve -b tcp://127.0.0.1:9494 examples/llm/service.ru

require "json"

PACE = 0.02 # seconds

event = lambda do |word|
  choice = { index: 0, delta: { role: "assistant", content: word } }
  "data: #{JSON.generate(object: "chat.completion.chunk", model: "echo", choices: [choice])}\n\n"
end

run(lambda do |env|
  question = JSON.parse(env["rack.input"].read).fetch("messages").last.fetch("content")
  answer = lambda do |stream|
    question.split(/(?<= )/).each do |word|
      sleep PACE
      stream.write(event.call(word))
    end
    stream.write("data: [DONE]\n\n")
  ensure
    stream.close
  end
  [200, { "content-type" => "text/event-stream" }, answer]
end)
