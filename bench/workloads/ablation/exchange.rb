# frozen_string_literal: true

module Bench
  module Workloads
    class Ablation < Workload
      # How one call is made in straight code, over a socket that may wait.
      module Exchange
        module_function

        # @param socket [TCPSocket]
        # @return [String, SystemCallError, EOFError] the answer, or what is wrong
        def exchange(socket)
          socket.write(HttpServer::REQUEST)
          whole(socket, +"")
        rescue SystemCallError, EOFError => error
          error
        end

        # @param socket [TCPSocket]
        # @param answer [String] what is there already
        # @return [String]
        def whole(socket, answer)
          until answer.bytesize >= HttpServer::RESPONSE.bytesize
            answer << socket.readpartial(4096)
          end
          answer
        end
      end
    end
  end
end
