# frozen_string_literal: true

require "monitor"

module Remora
  class Queue
    # A job that is to end, and how: it has failed, it was not tried, or it is done.
    Ending = Struct.new(:job, :failure, :untried) do # :nodoc:
      # Whether one statement can end both.
      def like?(other)
        failure == other.failure && untried == other.untried
      end

      def statement(tokens)
        return Statements.release(tokens) if untried

        failure ? Statements.nack(tokens, failure) : Statements.ack(tokens)
      end
    end

    # Ends messages that a worker is done with: many with one statement, on a connection of its own. While the
    # server is away, ends are kept.
    class Ender # :nodoc:
      # The block is told of each ending, when its token was used, whether that was stale.
      def initialize(connect, lease, log, &after)
        @lease = lease
        @log = log
        @after = after
        @left = []
        @monitor = Monitor.new
        @changed = @monitor.new_cond
        @line = Line.new(connect, [lease, ANSWER_PATIENCE].max)
        @thread = Thread.new { run }
        @thread.name = "remora-queue-ender"
      end

      def end(endings)
        @monitor.synchronize do
          @left.concat(endings)
          @changed.broadcast
        end
      end

      # Ends what is left. A lease that the server does not hear of in its time ends by itself.
      def close
        @monitor.synchronize do
          @until = now + @lease
          @changed.broadcast
        end
        @thread.join
      end

      def abort
        @thread.kill
      end

      private

      def now
        Process.clock_gettime(Process::CLOCK_MONOTONIC)
      end

      def run
        pauses = Pauses.new
        until (some = next_ones).empty?
          begin
            end_some(some)
            pauses.reset
          rescue StandardError => error
            @log.warn("ends of jobs could not be told, which is tried again: #{error.message}")
            Errors.lasting?(error) || too_late? ? give_up(some) : self.end(some)
            sleep(pauses.next)
          end
        end
      ensure
        @line.close
      end

      # Those that one statement can end. There are none when all have ended, and no more come.
      def next_ones
        @monitor.synchronize do
          @changed.wait_while { @left.empty? && @until.nil? }
          some, others = @left.partition { |one| one.like?(@left.first) }
          @left = others + some.drop(Statements::TOKENS_AT_ONCE)
          some.first(Statements::TOKENS_AT_ONCE)
        end
      end

      def too_late?
        @until && now > @until
      end

      def end_some(some)
        answer = @line.run(some.first.statement(some.map { |one| one.job.token }))
        stale = Job.stale_among(answer)
        some.each do |one|
          is_stale = stale.include?(one.job.token)
          if is_stale && !one.untried
            @log.warn("the end of a job came too late: its message may be worked on twice: #{one.job.token}")
          end
          @after.call(one, is_stale)
        end
      end

      def give_up(some)
        some.each do |one|
          @log.warn("a job could not be ended; it comes again when its lease has ended: #{one.job.token}")
          @after.call(one, false)
        end
      end
    end
  end
end
