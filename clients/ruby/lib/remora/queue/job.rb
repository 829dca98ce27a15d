# frozen_string_literal: true

require "json"

module Remora
  class Queue
    # A failed try, as the queue is told of it. Equal ones can be told with one statement.
    Failure = Struct.new(:reason, :delay) do # :nodoc:
      def self.of(why, delay = nil)
        delay = why.delay if delay.nil? && why.is_a?(Retry)
        reason = why.is_a?(Exception) ? why.message : why.to_s
        # The queue would refuse a time before now, and then the message would wait for the end of its lease.
        new(reason.empty? ? why.class.name : reason, delay && [Queue.number(delay, "a delay", least: nil), 0].max)
      end
    end

    # A message that is leased, as a handler sees it.
    class Job
      # The column payload, read as JSON. Text that is no JSON, as another program may have put it, is itself.
      # nil without such a column.
      attr_reader :payload
      # All columns as text, also numbers. Binary columns are base64, and NULL is nil.
      attr_reader :row
      # Which try this is, counted from 1.
      attr_reader :tries
      # Why the last try has failed. nil if nobody said so.
      attr_reader :why
      # Names the lease. It changes if the message comes again while its job runs.
      attr_reader :token

      # The messages in what queue_lease_json() returned.
      def self.all_of(answer) # :nodoc:
        JSON.parse(answer.first).map { |found| new(found) }
      end

      def initialize(found) # :nodoc:
        @row = found["row"]
        @token = found["token"]
        @tries = found["try"]
        @why = found["why"]
        @payload = Job.payload_of(@row["payload"])
        @key = id || @token
        @mutex = Mutex.new
        @lost = @over = false
      end

      def self.payload_of(text) # :nodoc:
        text && JSON.parse(text)
      rescue JSON::ParserError
        text
      end

      # What Queue#put returned: the column id as text.
      def id
        row["id"]
      end

      # A number that only grows, from lease to lease. What a job writes to can refuse a smaller one than it
      # has seen.
      def fence
        token[/:(\d+)-[^:]*\z/, 1].to_i
      end

      # Whether the lease has ended while the job runs, so that somebody else may have the message.
      def lost?
        @lost
      end

      # Says that this job of a batch has failed, and why: text or an exception. It comes again after `delay`
      # seconds, or as the queue's backoff says. The others are done unless they fail too.
      def fail(why, delay: nil)
        @failure = Failure.of(why, delay)
      end

      # :stopdoc:

      # By what a worker knows the message again.
      attr_reader :key
      attr_reader :failure
      # The same message, leased again before it was known how the use of the token went.
      attr_reader :again

      # From now on its token does not change.
      def over!
        @mutex.synchronize { @over = true }
      end

      # Somebody else may have the message, unless it was leased again meanwhile. Whether it was not.
      def lose(token)
        @mutex.synchronize { @lost = true if @token == token }
      end

      # The message was leased again while its job is here. One that runs continues with the new lease: true.
      def comes_again(again)
        @mutex.synchronize do
          if @over
            @again = again
            next false
          end
          @token = again.token
          @tries = again.tries
          @lost = false
          true
        end
      end

      # The tokens in what queue_stale() returned. A name in backticks may have commas of its own.
      def self.stale_among(answer)
        answer[1].to_s.scan(/(?:`[^`]*`|[^`,])+/)
      end

      # :startdoc:
    end
  end
end
