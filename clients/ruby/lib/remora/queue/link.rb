# frozen_string_literal: true

require "objspace"
require "socket"

module Remora
  class Queue
    # No answer of the server takes longer, unless the connection is broken. Seconds.
    ANSWER_PATIENCE = 30 # :nodoc:

    # A connection of mysql2 or trilogy, whatever its options are.
    class Link # :nodoc:
      # The link of what a caller has.
      def self.of(connection)
        return RecordLink.new(connection) if connection.respond_to?(:raw_connection)
        return new(connection) if driver?(connection)

        raise WrongUse, "#{connection.class} is no connection of mysql2, trilogy or Active Record"
      end

      def self.driver?(connection)
        connection.respond_to?(:query) && connection.respond_to?(:read_timeout)
      end

      # Runs a statement: its first row as text, or nil.
      def self.query(client, sql)
        if client.respond_to?(:query_flags)
          result = client.query(sql)
          row = result.rows.flatten(1).first(result.fields.size)
          row = nil if row.empty?
        else
          options = { as: :array, async: false, stream: false, cache_rows: true }
          row = client.query(sql, options)&.first
        end
        row&.map { |value| value&.to_s&.encode(Encoding::UTF_8, invalid: :replace, undef: :replace) }
      end

      # The driver's connection.
      attr_reader :client

      def initialize(client)
        @client = client
      end

      def run(sql)
        Link.query(client, sql)
      end

      def begin
        run("START TRANSACTION")
      end

      def commit
        run("COMMIT")
      end

      def rollback
        run("ROLLBACK")
      end

      # The driver gives up an answer after so many seconds. nil if it waits for ever.
      def read_timeout
        limit = client.read_timeout
        limit if limit&.positive?
      end

      # Closes the connection, whatever it is in the middle of.
      def discard
        return client.discard! if client.respond_to?(:discard!)

        # To close one of mysql2 sends a farewell, after which a server that waits notices the end only seconds
        # later.
        socket = Socket.for_fd(client.socket)
        socket.autoclose = false
        socket.shutdown
        client.close
      rescue StandardError
        # It is closed already.
      end
    end

    # A connection of Active Record. It knows of its transactions, so that models are a part of them.
    class RecordLink < Link # :nodoc:
      def client
        # A transaction that Active Record has not begun yet begins by this.
        @client.raw_connection
      end

      def begin
        @client.begin_transaction(joinable: true, _lazy: false)
      end

      def commit
        @client.commit_transaction
      end

      def rollback
        @client.transaction_open? ? @client.rollback_transaction : super
      end

      # It is given to nobody any more.
      def discard
        @client.throw_away!
      rescue StandardError
        super
      end
    end

    # A connection that a worker opens and closes itself. One thread uses it.
    class OwnLink < Link # :nodoc:
      OPENED = ObjectSpace::WeakMap.new
      private_constant :OPENED

      # The number of the connection.
      attr_reader :id

      # The driver gives up an answer after `limit` seconds; nil leaves that to `connect`.
      def initialize(connect, limit, autocommit: true)
        super(OwnLink.opened(connect))
        # A child of this process must not end the connection when it frees its copy.
        client.automatic_close = false if client.respond_to?(:automatic_close=)
        begin
          limit(limit) if limit
          run("SET NAMES utf8mb4, autocommit = #{autocommit ? 1 : 0}")
          @id = run("SELECT CONNECTION_ID()").first
        rescue Exception
          discard
          raise
        end
      end

      def self.opened(connect)
        client = connect.call
        raise WrongUse, "`connect` opens a connection of mysql2 or trilogy" unless Link.driver?(client)
        raise WrongUse, "`connect` opens another connection each time" if OPENED.key?(client)

        OPENED[client] = true
        client
      end

      # Whatever was said when the connection was opened: a worker knows how long its answers take.
      def limit(seconds)
        if client.respond_to?(:read_timeout=)
          client.read_timeout = seconds
        else
          # mysql2 takes it only when it connects, in whole seconds, and looks here at each statement.
          client.instance_variable_set(:@read_timeout, seconds.ceil)
        end
      end

      # Ends the wait of another connection. Nothing is wrong if it does not wait or is gone.
      def kill(id)
        run("KILL QUERY #{id}")
      rescue StandardError => error
        raise unless Errors.number_of(error) == Errors::UNKNOWN_THREAD
      end

      def close
        client.close
      rescue StandardError
        # It is closed already.
      end
    end

    # A connection of a thread's own: opened at its first statement, and again after an error.
    class Line # :nodoc:
      def initialize(connect, limit, autocommit: true)
        @connect = connect
        @limit = limit
        @autocommit = autocommit
      end

      def link
        @link ||= OwnLink.new(@connect, @limit, autocommit: @autocommit)
      end

      def run(sql)
        is_good = false
        answer = link.run(sql)
        is_good = true
        answer
      rescue StandardError => error
        is_good = Errors.interrupted?(error)
        raise
      ensure
        # Also when the thread is ended, which leaves the answer unread.
        drop unless is_good
      end

      # The number of the connection. nil if there is none.
      def id
        @link&.id
      end

      def drop
        @link&.discard
        @link = nil
      end

      def close
        @link&.close
        @link = nil
      end
    end

    # Ends waits by KILL QUERY, because nothing is lost by that: when a connection is closed instead, a
    # message may be leased to nobody.
    module Waits # :nodoc:
      # Between two KILL QUERY: one that comes before the wait does nothing. Seconds.
      KILL_EVERY = 0.2
      # After so long without success the thread is ended, and its connection with it.
      PATIENCE = 5

      # Returns when the thread has ended, which must raise nothing. The block says on which connection it
      # waits.
      def self.end_of(thread, connect, log, patience = PATIENCE, &id)
        killer = Thread.new { kill_until_ended(thread, connect, log, &id) }
        # Also until a KILL QUERY that is under way has done nothing to the connection's next statement.
        killer.join(patience)
      ensure
        killer&.kill
        thread.kill.join if thread.alive?
      end

      def self.kill_until_ended(thread, connect, log)
        line = Line.new(connect, ANSWER_PATIENCE)
        loop do
          begin
            id = yield
            line.link.kill(id) if id
          rescue StandardError => error
            log.warn("the wait could not be ended, which is tried again: #{error.message}")
            line.drop
          end
          break if thread.join(KILL_EVERY)
        end
      ensure
        line&.drop
      end
      private_class_method :kill_until_ended
    end

    # Between tries that fail: longer and longer. Seconds.
    class Pauses # :nodoc:
      FIRST = 0.1
      MOST = 5

      def next
        @before = (@before ? @before * 2 : FIRST).clamp(FIRST, MOST)
      end

      def reset
        @before = nil
      end
    end

    # What a log is told, which must not end a thread of a worker.
    class Log # :nodoc:
      def initialize(to)
        @to = to
      end

      def warn(text)
        @to ? @to.warn(text) : $stderr.puts("remora-queue: #{text}")
      rescue StandardError
        # Nobody could be told.
      end
    end
  end
end
