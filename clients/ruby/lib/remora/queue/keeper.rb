# frozen_string_literal: true

require "set"

module Remora
  class Queue
    # Extends leases while the work continues, from a thread with a connection of its own. Jobs that end
    # before their first extension cost no connection.
    class Keeper # :nodoc:
      # A lease is extended so often while it lasts. Two tries may fail before it ends.
      EXTENSIONS = 3

      def initialize(connect, lease, log)
        @lease = lease
        @log = log
        @jobs = Set.new
        @mutex = Mutex.new
        # A connection that does not answer must not use up the lease.
        @line = Line.new(connect, lease.fdiv(EXTENSIONS))
        @thread = Thread.new { run }
        @thread.name = "remora-queue-keeper"
      end

      def add(job)
        @mutex.synchronize { @jobs << job }
      end

      def remove(job)
        @mutex.synchronize { @jobs.delete(job) }
      end

      # Ends also an extension that is under way: a broken connection may never answer.
      def close
        @thread.kill.join
      end

      private

      def run
        loop do
          sleep(@lease.fdiv(EXTENSIONS))
          extend_all
        rescue StandardError => error
          @log.warn("leases could not be extended, which is tried again: #{error.message}")
        end
      ensure
        @line.close
      end

      def extend_all
        by_token = @mutex.synchronize { @jobs.to_h { |job| [job.token, job] } }
        by_token.keys.each_slice(Statements::TOKENS_AT_ONCE) do |tokens|
          answer = @line.run(Statements.extend(tokens, @lease))
          Job.stale_among(answer).each { |token| lose(by_token[token], token) }
        end
      end

      # One that is leased again meanwhile has another token, and one that has ended is gone.
      def lose(job, token)
        @mutex.synchronize do
          next unless @jobs.include?(job) && job.lose(token)

          @jobs.delete(job)
          @log.warn("the lease has ended while its job runs: #{token}")
        end
      end
    end
  end
end
