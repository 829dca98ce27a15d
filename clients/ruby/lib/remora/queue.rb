# frozen_string_literal: true

require "securerandom"
require_relative "queue/version"
require_relative "queue/errors"
require_relative "queue/statements"
require_relative "queue/link"
require_relative "queue/message"
require_relative "queue/job"
require_relative "queue/keeper"
require_relative "queue/ender"
require_relative "queue/transaction"
require_relative "queue/taking"
require_relative "queue/worker"
require_relative "queue/railtie" if defined?(Rails::Railtie)

module Remora
  # A table with ENGINE=QUEUE of MariaDB: its DDL, putting messages into it, and working on them. Many threads
  # can use one.
  class Queue
    # A part of a name, as in SQL.
    PART = /(`(?:[^`]|``)+`|[^`.]+)/.freeze
    NAME = /\A(?:#{PART}\.)?#{PART}\z/m.freeze
    IS_TRANSACTIONAL = /\btransactional`?\s*=\s*'?1/i.freeze
    private_constant :PART, :NAME, :IS_TRANSACTIONAL

    # The table's name without its database.
    attr_reader :name
    # The name's first part. nil if the connection's database decides.
    attr_reader :database
    # The full name in backticks, for SQL and for the functions of the queue.
    attr_reader :table
    # The table of messages that have failed `tries` times, without its database.
    attr_reader :dead
    attr_reader :connect # :nodoc:

    # The name is "table" or "db.table"; a part with a dot in it is in backticks. The options are those of
    # #create; an existing table keeps its own. `fifo`, `dedupe_for` and `priority` say which columns the
    # table has: give them as when it was made.
    #
    # connect::       opens a connection for those who need one of their own: workers, and #take
    # transactional:: without it ROLLBACK does not undo a put, which is faster
    # tries::         how often a message is tried before it is moved to NAME_dead; 0 for no limit
    # backoff::       how many seconds a message waits after a failed try, by which factor each further wait
    #                 is longer, and the longest one, 0 for no limit
    # fifo::          messages may have a key
    # dedupe_for::    messages may have a `dedupe`. A second one with the same is left out for so many
    #                 seconds; with 0, for as long as the first one waits
    # priority::      messages may have a priority
    # keep::          for how many seconds messages are kept that have ended
    def initialize(name, connect: nil, transactional: true, tries: 5, backoff: [10, 2, 3600], fifo: false,
                   dedupe_for: nil, priority: false, keep: 0)
      found = NAME.match(name)
      if found.nil? || name.include?("\\")
        raise WrongUse, "#{name.inspect} is no name of a table; write db.table, with backticks around odd parts"
      end
      raise WrongUse, "a backoff has three numbers" unless backoff.is_a?(Array) && backoff.size == 3

      @database = unquoted(found[1])
      @name = unquoted(found[2])
      @table = named(@name)
      @dead = "#{@name}_dead"
      @connect = connect
      @transactional = transactional
      @tries = Queue.number(tries, "tries").to_i
      @backoff = backoff.map { |number| Queue.number(number, "a backoff") }
      @fifo = fifo
      @dedupe_for = dedupe_for && Queue.number(dedupe_for, "dedupe_for").to_i
      @priority = priority
      @keep = Queue.number(keep, "keep").to_i
      # What the table itself says, once somebody has looked.
      @is_transactional = false
    end

    # A number, or a duration of Active Support in seconds.
    def self.number(value, what, least: 0) # :nodoc:
      number = value.is_a?(Integer) ? value : Float(value)
      return number if number.finite? && (least.nil? || number >= least)

      raise WrongUse, "#{what} can't be #{number}"
    rescue ArgumentError, TypeError
      raise WrongUse, "#{what} is a number, and not #{value.inspect}"
    end

    # Text or an integer as a condition of a queue has it.
    def self.literal(value)
      return value.to_s if value.is_a?(Integer)

      "'#{value.to_s.gsub(/['\\]/) { |sign| sign * 2 }}'"
    end

    # What `connect` can be for a program with Active Record: it opens a connection of the driver as
    # `record_class` does, such as ActiveRecord::Base.
    def self.connect_as(record_class)
      lambda do
        config = record_class.connection_db_config.configuration_hash.dup
        case config[:adapter]
        when "mysql2" then Mysql2::Client.new(config)
        when "trilogy" then Trilogy.new(config)
        else raise WrongUse, "Active Record has no connection of mysql2 or trilogy here: #{config[:adapter]}"
        end
      end
    end

    # The statements that #create runs, for those who keep their DDL elsewhere.
    def ddl
      columns = ["id CHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL", "payload LONGTEXT NOT NULL",
                 "at TIMESTAMP(6) NULL"]
      options = ["DUE=at", "KEEP=#{@keep}"]
      if @fifo
        columns << "message_key VARCHAR(190) COLLATE utf8mb4_bin NULL"
        options << "FIFO=message_key"
      end
      if @dedupe_for
        columns << "dedupe_key VARCHAR(190) COLLATE utf8mb4_bin NULL"
        options << "DEDUPE=dedupe_key DEDUPE_FOR=#{@dedupe_for}"
      end
      if @priority
        columns << "priority INT NOT NULL DEFAULT 0"
        options << "PRIORITY=priority"
      end
      options << "TRANSACTIONAL=1" if @transactional
      return [creation(table, columns, options)] if @tries.zero?

      dead_table = named(dead)
      options << "TRIES=#{@tries} BACKOFF='#{@backoff.join(",")}' DEAD=#{Statements.plain(dead_table)}"
      [creation(dead_table, columns + ["failed INT NULL", "why TEXT NULL"], ["FAILED=failed", "WHY=why"]),
       creation(table, columns, options)]
    end

    # Makes the tables if they are not there. As all DDL, it commits the connection's transaction.
    def create(connection)
      link = Link.of(connection)
      ddl.each { |statement| link.run(statement) }
      nil
    end

    # Puts a message into the queue and gives its id. It is a part of the connection's transaction: workers
    # see it when that commits, and never if it does not.
    #
    # The connection is one of mysql2, of trilogy, or of Active Record. `payload` is what JSON can hold. The
    # message comes after `delay` seconds, or at the time `at`. Messages with the same `key` come one at a
    # time and in order. One whose `dedupe` came before is left out. The lowest `priority` comes first.
    #
    # A queue that is not transactional refuses a transaction, with InTransaction, because ROLLBACK would not
    # undo the put: `outside_transaction` says that this is meant.
    def put(connection, payload, outside_transaction: false, **options)
      put_many(connection, [Message.new(payload, **options)], outside_transaction: outside_transaction).first
    end

    # Puts messages with one statement, all or none of them, and gives their ids.
    def put_many(connection, messages, outside_transaction: false)
      ids = []
      rows = messages.map do |message|
        ids << SecureRandom.hex(16)
        "('#{ids.last}',#{values(message)})"
      end
      return ids if ids.empty?

      link = Link.of(connection)
      refuse_transaction(link) unless @is_transactional || outside_transaction
      # In UTC no time occurs twice, and none is missing.
      link.run("SET STATEMENT time_zone = '+00:00' FOR INSERT INTO #{table} (#{columns}) VALUES #{rows.join(",")}")
      ids
    end

    # A worker, which runs the block for each message. The end of the block ends the message. An exception is
    # a failed try with its text as the reason. Retry says when to try again.
    #
    # connect::     opens a connection; by default that of the queue. A worker has up to four, and with
    #               `transaction` one more for each thread.
    # lease::       seconds. A lease is extended while its job runs. So this is how long a message is away
    #               when its worker is killed.
    # threads::     how many run the block at the same time
    # batch::       with more than 1 the block is given an array of up to so many jobs
    # transaction:: the block is given the job and a connection. Its changes and the end of the message are
    #               one COMMIT. With true the connection is one of `connect`; with a class of Active Record it
    #               is that of the class, and models are a part of the transaction.
    # where::       a condition: "priority < 3". Queue.literal quotes values.
    # wait::        for how many seconds the server waits for a message before the worker asks again
    # log::         a Logger, or whatever has `warn`; by default standard error
    def worker(connect: @connect, **options, &handler)
      Worker.new(self, connect: connect, **options, &handler)
    end

    # Takes a message and the caller's changes in one transaction: both are there, or neither. False if no
    # message came within `wait` seconds. When the block has returned, the message is ended and the
    # transaction committed. The block is given the Job, and leaves COMMIT and ROLLBACK to #take.
    #
    # An exception of the block rolls back, is a failed try, and comes out; so is `break`. LeaseLost says that
    # somebody else has the message meanwhile, and nothing is committed. If the queue has `connect`, the lease
    # of so many seconds is extended while the block runs, and an exception from another thread, such as that
    # of Timeout, ends the wait at once.
    def take(connection, lease: 30, wait: 0, where: nil, &work)
      raise WrongUse, "take needs a block" unless work

      Taking.new(self, Link.of(connection), lease: lease, wait: wait, where: where).run(&work)
    end

    # :stopdoc:

    # What a connection is.
    State = Struct.new(:in_transaction, :autocommit, :id, :charset)

    # Asks the server for the state, and notes whether the table takes part in transactions.
    def look(link)
      found = link.run(Statements.state(database, name))
      unless found[2].to_s.start_with?("QUEUE")
        raise NotAQueue, "#{table} is no table with ENGINE=QUEUE; `create` makes one"
      end

      @is_transactional = found[2].match?(IS_TRANSACTIONAL)
      State.new(found[0] == "1", found[1] == "1", found[3], found[4])
    end

    # Refuses what COMMIT can't end.
    def look_for_transaction(link)
      state = look(link)
      return state if @is_transactional

      raise WrongUse, "#{table} is not TRANSACTIONAL: COMMIT can't end its messages"
    end

    private

    def unquoted(part)
      part&.start_with?("`") ? part[1..-2].gsub("``", "`") : part
    end

    def named(name)
      [database, name].compact.map { |part| Statements.quoted(part) }.join(".")
    end

    def creation(table, columns, options)
      "CREATE TABLE IF NOT EXISTS #{table} (#{columns.join(", ")}) ENGINE=QUEUE CHARSET=utf8mb4 " +
        options.join(" ")
    end

    # The columns that a put fills.
    def columns
      ["id,payload,at", @fifo && "message_key", @dedupe_for && "dedupe_key", @priority && "priority"]
        .select(&:itself).join(",")
    end

    # The columns after the id. What the table has no column for would be lost, and is refused.
    def values(message)
      values = [Statements.value(message.json), message.due]
      given = { key: [@fifo, message.key], dedupe: [@dedupe_for, message.dedupe],
                priority: [@priority, message.priority] }
      given.each do |name, (is_there, value)|
        if is_there
          values << (name == :priority ? Integer(value || 0).to_s : Statements.nullable(value&.to_s))
        elsif !value.nil?
          raise WrongUse, "#{table} has no column for #{name}; make the Queue with the option for it"
        end
      end
      values.join(",")
    end

    def refuse_transaction(link)
      state = look(link)
      return if @is_transactional || (!state.in_transaction && state.autocommit)

      raise InTransaction, "#{table} is not TRANSACTIONAL, so ROLLBACK would not undo this put; " \
                           "outside_transaction: true says that this is meant"
    end
  end
end

