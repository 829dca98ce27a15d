# frozen_string_literal: true

module Remora
  class Queue
    # One call of Queue#take.
    class Taking # :nodoc:
      def initialize(queue, link, lease:, wait:, where:)
        @queue = queue
        @link = link
        @lease = Queue.number(lease, "a lease", least: 0.001)
        @wait = Queue.number(wait, "a wait")
        @where = where
        @log = Log.new(nil)
      end

      # False if no message came.
      def run(&work)
        state = check
        answer = wait_for_answer(state.id)
        jobs = Job.all_of(answer)
        return false if jobs.empty?

        commit(jobs.first, state.autocommit, &work)
        true
      end

      private

      # Refuses to take where something would not be seen, or where the message may be leased to nobody.
      def check
        state = @queue.look_for_transaction(@link)
        if state.in_transaction
          raise InTransaction, "`take` begins a transaction of its own: commit the one before, which may not " \
                               "see what was committed together with the message"
        end
        # The server reads names and conditions in the character set of the connection.
        if !"#{@queue.table}#{@where}".ascii_only? && !state.charset.start_with?("utf8")
          raise WrongUse, "a name or a condition has letters that need a connection with encoding utf8mb4"
        end

        limit = @link.read_timeout
        raise WrongUse, "the connection gives up after #{limit} s; wait for less" if limit && @wait >= limit

        state
      end

      def wait_for_answer(id)
        statement = Statements.lease(@queue.table, @where, @lease, 1, @wait)
        client = @link.client
        # In a thread of its own, so that this one hears of exceptions from others.
        waiting = Thread.new { answer_or_error(client, statement) }
        begin
          answer = waiting.value
        ensure
          abandon(waiting, id) unless answer
        end
        answer.is_a?(Exception) ? raise(answer) : answer
      end

      def answer_or_error(client, statement)
        Link.query(client, statement)
      rescue StandardError => error
        error
      end

      # Ends the wait. What came meanwhile is returned, and was not tried.
      def abandon(waiting, id)
        return give_up(waiting) unless @queue.connect

        Waits.end_of(waiting, @queue.connect, @log) { id }
        answer = waiting.value
        return give_up(waiting) if answer.nil?
        return if answer.is_a?(Exception)

        Job.all_of(answer).each { |job| tell(Statements.release([job.token]), job) }
      end

      # The connection would go on waiting, and lease the next message to nobody.
      def give_up(waiting)
        waiting.kill.join
        @link.discard
      end

      def commit(job, autocommit, &work)
        keeper = Keeper.new(@queue.connect, @lease, @log) if @queue.connect
        keeper&.add(job)
        why = Error.new("the block was left by break, throw or the end of its thread")
        over = lambda do
          job.over!
          keeper&.close
        end
        Transaction.commit_with(@link, autocommit, job, over) { work.call(job) }
        why = nil
      rescue Exception => error
        why = error
        raise
      ensure
        keeper&.close
        # After ROLLBACK: until then the token may be in use.
        tell(Statements.nack([job.token], Failure.of(why)), job) if why
      end

      # The connection may be gone with an error, so another one is tried. If that fails too, the lease ends
      # by itself.
      def tell(statement, job)
        @link.run(statement)
      rescue StandardError => error
        begin
          raise error unless @queue.connect

          line = Line.new(@queue.connect, ANSWER_PATIENCE)
          line.run(statement)
        rescue StandardError => again
          @log.warn("the end of a job could not be told; it comes again when its lease has ended: " \
                    "#{job.token}: #{again.message}")
        ensure
          line&.close
        end
      end
    end
  end
end
