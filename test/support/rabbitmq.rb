# frozen_string_literal: true

require_relative "servers"

# RabbitMQ from Debian, with its port mapper, in a folder of its own. It takes half a minute to
# start on a busy machine.
module RabbitMQ
  module_function

  # @return [Servers::Server]
  def fetch
    mapper = Servers.fetch("epmd") { |port, _| ["epmd", "-port", port.to_s] }
    Servers.fetch("rabbitmq") do |port, folder|
      File.write("#{folder}/plugins", "[].")
      File.write("#{folder}/env", "")
      ["env", *settings(port, folder, mapper.port), "/usr/lib/rabbitmq/bin/rabbitmq-server"]
    end
  end

  def settings(port, folder, mapper)
    { "HOME" => folder, "ERL_EPMD_PORT" => mapper, "RABBITMQ_NODENAME" => "nb@localhost",
      "RABBITMQ_NODE_IP_ADDRESS" => "127.0.0.1", "RABBITMQ_NODE_PORT" => port,
      "RABBITMQ_DIST_PORT" => Ports.free,
      "RABBITMQ_MNESIA_BASE" => "#{folder}/mnesia", "RABBITMQ_LOG_BASE" => "#{folder}/log",
      "RABBITMQ_PID_FILE" => "#{folder}/pid", "RABBITMQ_CONFIG_FILE" => "#{folder}/none",
      "RABBITMQ_ENABLED_PLUGINS_FILE" => "#{folder}/plugins", "RABBITMQ_SCHEMA_DIR" => folder,
      "RABBITMQ_GENERATED_CONFIG_DIR" => folder, "RABBITMQ_CONF_ENV_FILE" => "#{folder}/env",
      "RABBITMQ_LOGS" => "-" }.map { |name, value| "#{name}=#{value}" }
  end
end
