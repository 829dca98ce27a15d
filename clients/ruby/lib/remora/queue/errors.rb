# frozen_string_literal: true

module Remora
  class Queue
    # The base of this package's own errors. Those of the driver come out as they are.
    class Error < StandardError; end

    # There is no such table, or it has another engine.
    class NotAQueue < Error; end

    # The connection is within a transaction, and what was asked for would be no part of it.
    class InTransaction < Error; end

    # The lease has ended, and somebody else may have the message.
    class LeaseLost < Error; end

    # The program gave a value that is none, such as a name with three parts.
    class WrongUse < Error; end

    # For a handler to raise: try again, after `delay` seconds or as the queue's backoff says. It is a failed
    # try, and nothing is logged.
    class Retry < Error
      # Seconds. nil: as the backoff says.
      attr_reader :delay

      def initialize(reason = nil, delay: nil)
        super(reason)
        @delay = delay
      end
    end

    # What errors mean. The server's manual lists the numbers under "Errors and warnings".
    module Errors # :nodoc:
      # These come again at every try: the table, a privilege or an argument is wrong.
      LASTING = [1046, 1049, 1064, 1103, 1142, 1143, 1146, 1210, 1305, *51_001..51_007].freeze
      # So do errors of the program itself, such as a `connect` that opens no connection.
      PROGRAM = [Error, NameError, TypeError, ArgumentError, IndexError, ScriptError].freeze
      # KILL QUERY, or max_statement_time: the wait has ended, and the connection can be used on.
      INTERRUPTED = [1317, 1969].freeze
      UNKNOWN_THREAD = 1094
      # RELEASE SAVEPOINT of one that is not there.
      NO_SAVEPOINT = 1305

      module_function

      # The server's number of an error, also below one of Active Record. nil if it has none.
      def number_of(error)
        while error
          %i[error_number error_code].each do |name|
            number = error.public_send(name) if error.respond_to?(name)
            return number if number.is_a?(Integer)
          end
          error = error.cause
        end
      end

      def lasting?(error)
        PROGRAM.any? { |kind| kind === error } || LASTING.include?(number_of(error))
      end

      def interrupted?(error)
        INTERRUPTED.include?(number_of(error))
      end
    end
  end
end
