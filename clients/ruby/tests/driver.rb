# frozen_string_literal: true

# Which driver the tests use, and where their server is.

$LOAD_PATH.unshift File.expand_path("../lib", __dir__)
require "remora/queue"

abort "REMORA_QUEUE_SOCKET must name the socket of a server" unless ENV["REMORA_QUEUE_SOCKET"]

# The driver that REMORA_QUEUE_DRIVER names: mysql2 or trilogy.
module Driver
  NAME = ENV.fetch("REMORA_QUEUE_DRIVER", "mysql2")
  SOCKET = ENV["REMORA_QUEUE_SOCKET"]
  require NAME

  ERROR = NAME == "mysql2" ? Mysql2::Error : Trilogy::Error

  def self.connect(database = nil, socket: SOCKET, **options)
    options = { socket: socket, username: "root", database: database, encoding: "utf8mb4", **options }.compact
    NAME == "mysql2" ? Mysql2::Client.new(options) : Trilogy.new(options)
  end

  # The number of an error.
  def self.number(error)
    Remora::Queue::Errors.number_of(error)
  end

  # All rows of a statement. nil for one without rows.
  def self.rows(client, sql)
    return client.query(sql, as: :array)&.to_a if NAME == "mysql2"

    result = client.query(sql)
    result.rows unless result.fields.empty?
  end
end
