# frozen_string_literal: true

require "json"
require_relative "../../test/support/rabbitmq"

module Others
  # RabbitMQ as the tests of bunny know it: with its users, virtual hosts and ports.
  module Broker
    AMQP = 5672
    MANAGEMENT = 15_672
    ALL = ".*"
    NONE = "^---$"
    # Users: password, virtual hosts, and what they may there: configure, write, read.
    USERS = { "guest" => ["guest", %w[/ bunny_testbed], ALL, ALL, ALL],
              "bunny_gem" => ["bunny_password", %w[bunny_testbed], ALL, ALL, ALL],
              "bunny_reader" => ["reader_password", %w[bunny_testbed], NONE, NONE, ALL] }.freeze

    module_function

    # @return [Servers::Server] whose own port is that of STOMP; that of AMQP opens a little later
    def fetch
      plugins = %w[rabbitmq_management rabbitmq_stomp]
      server = RabbitMQ.start("rabbitmq-others", plugins: plugins) do |port, folder|
        File.write("#{folder}/definitions.json", JSON.generate(definitions))
        File.write("#{folder}/others.conf", settings(port, folder))
        { "RABBITMQ_NODE_PORT" => AMQP, "RABBITMQ_CONFIG_FILE" => "#{folder}/others.conf" }
      end
      300.times { open? ? break : sleep(0.1) }
      server
    end

    def open?
      TCPSocket.open("127.0.0.1", AMQP, &:close)
      true
    rescue Errno::ECONNREFUSED
      false
    end

    def settings(port, folder)
      <<~TEXT
        load_definitions = #{folder}/definitions.json
        management.tcp.ip = 127.0.0.1
        management.tcp.port = #{MANAGEMENT}
        stomp.listeners.tcp.1 = 127.0.0.1:#{port}
      TEXT
    end

    def definitions
      users = USERS.map do |name, person|
        { name: name, password: person.first, tags: "administrator" }
      end
      permissions = USERS.flat_map { |name, (_, hosts, *may)| permissions(name, hosts, may) }
      { users: users, vhosts: [{ name: "/" }, { name: "bunny_testbed" }],
        permissions: permissions }
    end

    def permissions(user, hosts, may)
      hosts.map { |host| { user: user, vhost: host, **%i[configure write read].zip(may).to_h } }
    end
  end
end
