# frozen_string_literal: true

require_relative "servers"

# RabbitMQ from Debian, with its port mapper, in a folder of its own. It takes half a minute to
# start on a busy machine.
module RabbitMQ
  module_function

  # @return [Servers::Server]
  def fetch
    start("rabbitmq") { |port, _| { "RABBITMQ_NODE_PORT" => port } }
  end

  # @param name [String] of the server
  # @param plugins [Array<String>]
  # @yield [port, folder] to set it up
  # @yieldreturn [Hash] environment variables beside the usual ones; one of its ports is the given
  # @return [Servers::Server]
  def start(name, plugins: [])
    mapper = Servers.fetch("epmd") { |port, _| ["epmd", "-port", port.to_s] }
    Servers.fetch(name) do |port, folder|
      File.write("#{folder}/plugins", "[#{plugins.join(",")}].")
      File.write("#{folder}/env", "")
      variables = settings(folder, mapper.port).merge(yield(port, folder))
      ["env", *variables.map { |pair| pair.join("=") }, "/usr/lib/rabbitmq/bin/rabbitmq-server"]
    end
  end

  def settings(folder, mapper)
    { "HOME" => folder, "ERL_EPMD_PORT" => mapper, "RABBITMQ_NODENAME" => "nb@localhost",
      "RABBITMQ_NODE_IP_ADDRESS" => "127.0.0.1", "RABBITMQ_DIST_PORT" => Ports.free,
      "RABBITMQ_MNESIA_BASE" => "#{folder}/mnesia", "RABBITMQ_LOG_BASE" => "#{folder}/log",
      "RABBITMQ_PID_FILE" => "#{folder}/pid", "RABBITMQ_CONFIG_FILE" => "#{folder}/none",
      "RABBITMQ_ENABLED_PLUGINS_FILE" => "#{folder}/plugins", "RABBITMQ_SCHEMA_DIR" => folder,
      "RABBITMQ_GENERATED_CONFIG_DIR" => folder, "RABBITMQ_CONF_ENV_FILE" => "#{folder}/env",
      "RABBITMQ_LOGS" => "-" }
  end
end
