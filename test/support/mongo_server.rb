# frozen_string_literal: true

require "bson"
require_relative "threaded_server"

# MongoDB's wire protocol (OP_MSG, and OP_QUERY for the first hello) in plain threads, a program of
# its own. It is no database: hello, ping, find (by equality) with getMore, insert, update ($set)
# and delete, kept in memory; no index but of _id, no sessions, no errors but "no such command".
# What a driver does with its sockets is the same as with the real one.
#
#   ruby mongo_server.rb PORT
class MongoServer
  include ThreadedServer

  QUERY = 2004
  REPLY = 1
  MESSAGE = 2013
  HELLO = {
    "ismaster" => true, "isWritablePrimary" => true, "maxBsonObjectSize" => 16_777_216,
    "maxMessageSizeBytes" => 48_000_000, "maxWriteBatchSize" => 100_000, "minWireVersion" => 0,
    "maxWireVersion" => 17, "readOnly" => false, "ok" => 1.0
  }.freeze

  def initialize(port)
    listen(port)
    @lock = Thread::Mutex.new
    @documents = Hash.new { |all, name| all[name] = {} } # by "_id"
    @cursors = {}
  end

  private

  def converse(client)
    while (head = client.read(16)) && head.bytesize == 16
      length, id, _, code = head.unpack("l<4")
      client.write(answer(id, code, client.read(length - 16)))
    end
  end

  def answer(id, code, body)
    return frame(id, REPLY, HELLO, prefix: [8, 0, 0, 1].pack("l<q<l<l<")) if code == QUERY

    found = @lock.synchronize { reply(command(body)) }
    frame(id, MESSAGE, found, prefix: [0, 0].pack("l<C"))
  end

  def frame(id, code, document, prefix:)
    body = prefix + BSON::Document.new(document).to_bson.to_s
    [16 + body.bytesize, 0, id, code].pack("l<4") + body
  end

  # Section 0 is the command, sections 1 are lists of documents that belong into it.
  def command(body)
    buffer = BSON::ByteBuffer.new(body.byteslice(4..))
    document = {}
    while buffer.length.positive?
      buffer.get_byte == "\0" ? document = parse(buffer).merge(document) : list(buffer, document)
    end
    document
  end

  def list(buffer, document)
    left = buffer.length - buffer.get_int32
    name = buffer.get_cstring
    documents = []
    documents << parse(buffer) while buffer.length > left
    document[name] = documents
  end

  def parse(buffer) = BSON::Document.from_bson(buffer)

  def reply(command)
    name = command.keys.first
    case name.downcase
    when "hello", "ismaster" then HELLO
    when "find" then find(command)
    when "getmore" then batch(command["getMore"], "nextBatch", command)
    when "insert" then insert(@documents[command["insert"]], command["documents"])
    when "update" then write(command["updates"].sum { |one| update(command["update"], one) })
    when "delete" then write(command["deletes"].sum { |one| delete(command["delete"], one) })
    when "ping", "endsessions", "killcursors" then { "ok" => 1.0 }
    else { "ok" => 0.0, "errmsg" => "no such command: '#{name}'", "code" => 59 }
    end
  end

  def insert(all, documents)
    documents.each { |one| all[one["_id"]] = one }
    write(documents.size)
  end

  def write(count) = { "n" => count, "nModified" => count, "ok" => 1.0 }

  def find(command)
    id = @cursors.size + 1
    @cursors[id] = matching(command["find"], command["filter"].to_h).dup
    batch(id, "firstBatch", command.merge("collection" => command["find"]))
  end

  def batch(id, key, command)
    documents = @cursors[id].shift(command["batchSize"] || 101)
    more = @cursors[id].empty? ? 0 : id
    space = "#{command["$db"]}.#{command["collection"]}"
    { "cursor" => { "id" => BSON::Int64.new(more), "ns" => space, key => documents }, "ok" => 1.0 }
  end

  def matching(name, filter)
    all = @documents[name]
    some = filter.key?("_id") ? [all[filter["_id"]]].compact : all.values
    some.select { |one| filter.all? { |key, value| one[key] == value } }
  end

  def update(name, one)
    found = matching(name, one["q"])
    found.each { |document| document.update(one["u"].fetch("$set")) }.size
  end

  def delete(name, one)
    matching(name, one["q"]).each { |document| @documents[name].delete(document["_id"]) }.size
  end
end

MongoServer.new(Integer(ARGV.first)).run if $PROGRAM_NAME == __FILE__
