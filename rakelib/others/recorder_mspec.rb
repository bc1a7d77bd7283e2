# frozen_string_literal: true

# Loaded by `-r` into the process that runs ruby/spec, whose framework lies beside it.
$LOAD_PATH.unshift "#{Dir.pwd}/spec/mspec/lib"
Dir.chdir "spec/ruby" # where MSpec finds the settings that do not ask for a build of Ruby
require "mspec"
require_relative "recorder"

module Others
  module Recorder
    # Told of each example by MSpec.
    module Example
      module_function

      def before(state)
        @name = state.description.gsub(/0x\h+/, "0x")
        @error = nil
        Recorder.write("start", @name)
      end

      # @return [String, nil] of an error beside the examples, such as one of a file
      def exception(exception)
        @error ||= exception.exception
        Recorder.record("failed", exception.description, @error) unless @name
      end

      def after(_state)
        Recorder.record(@error ? "failed" : "passed", @name, @error)
        @name = nil
      end
    end

    # For MSpec: an example, what comes before it and after it, each in a loop.
    module Inside
      def protect(...)
        result = nil
        NB.run { result = super }
        result
      end
    end

    # For ExampleState.
    module Chosen
      def filtered? = LEFT_OUT.include?(description.gsub(/0x\h+/, "0x")) || super
    end
  end
end

%i[before exception after].each { |event| MSpec.register(event, Others::Recorder::Example) }
ExampleState.prepend(Others::Recorder::Chosen)
MSpec.singleton_class.prepend(Others::Recorder::Inside) if ENV["OTHERS_INSIDE"]
