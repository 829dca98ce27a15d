# frozen_string_literal: true

module Remora
  class Queue
    # Statements as text. They have no parameters: drivers quote those by their own options. Apart from names,
    # all of them are ASCII, so that no character set of a connection changes them.
    module Statements # :nodoc:
      # More tokens than this would make a statement that nobody can read in a log.
      TOKENS_AT_ONCE = 200

      # The queue keeps a reason of at most 1024 bytes.
      REASON_MAX = 1000

      AUTOCOMMIT = "SET autocommit = 1"
      # What a handler does after a deadlock, which ends its transaction, is not committed by itself then.
      NO_AUTOCOMMIT = "SET autocommit = 0"

      # A savepoint is gone when its transaction has ended, as a deadlock ends it. @@in_transaction would say
      # less: without autocommit the next statement begins another transaction.
      MARK = "SAVEPOINT remora_queue_job"
      CHECK_MARK = "RELEASE SAVEPOINT remora_queue_job"

      module_function

      # A name in backticks, as SQL and the functions of the queue want it.
      def quoted(name)
        "`#{name.gsub("`", "``")}`"
      end

      # Text as an SQL expression. It means the same in every sql_mode and character set: what is not plain is
      # hex.
      def value(text)
        text = text.encode(Encoding::UTF_8)
        return "_utf8mb4 x'#{text.unpack1("H*")}'" if !text.ascii_only? || text.match?(/[\\\0]/)

        plain(text)
      end

      # Text without a backslash as SQL text.
      def plain(text)
        "'#{text.gsub("'", "''")}'"
      end

      def nullable(text)
        text.nil? ? "NULL" : value(text)
      end

      # Text in ASCII, as JSON has it.
      def escaped(text)
        text = text.to_s.encode(Encoding::UTF_8, invalid: :replace, undef: :replace).scrub
        text.gsub(/[^\x00-\x7e]/) do |letter|
          letter.encode(Encoding::UTF_16BE).unpack("n*").map { |unit| format("\\u%04x", unit) }.join
        end
      end

      # A time as SQL.
      def seconds(lasts)
        format("'%.3f'", lasts)
      end

      # Asks for rows. Their numbers are text: DECIMAL is no floating point.
      def lease(table, where, lasts, rows, wait)
        argument = where.nil? ? table : "#{table}:#{where}"
        "SET STATEMENT queue_json_strings = ON FOR SELECT " \
          "queue_lease_json(#{seconds(lasts)}, '#{rows}', #{value(argument)}, #{seconds(wait)})"
      end

      # Each of these gives how many tokens were valid, and the others.

      def ack(tokens)
        "SELECT queue_ack(#{joined(tokens)}), queue_stale()"
      end

      def extend(tokens, lasts)
        "SELECT queue_extend(#{joined(tokens)}, #{seconds(lasts)}), queue_stale()"
      end

      def release(tokens)
        "SELECT queue_release(#{joined(tokens)}), queue_stale()"
      end

      def nack(tokens, failure)
        delay = failure.delay.nil? ? "NULL" : seconds(failure.delay)
        reason = value(escaped(failure.reason)[0, REASON_MAX])
        "SELECT queue_nack(#{joined(tokens)}, #{delay}, #{reason}), queue_stale()"
      end

      def joined(tokens)
        value(tokens.join(","))
      end

      # Asks whether there is a transaction, for autocommit, what the table is, for the number of the
      # connection, and for its character set.
      def state(database, table)
        "SELECT @@in_transaction, @@autocommit, (SELECT CONCAT(engine, ' ', create_options) " \
          "FROM information_schema.tables WHERE table_schema = COALESCE(#{nullable(database)}, DATABASE()) " \
          "AND table_name = #{value(table)}), CONNECTION_ID(), @@character_set_connection"
      end
    end
  end
end
