# frozen_string_literal: true

module Remora
  class Queue
    # Work and the end of its message, in one transaction.
    module Transaction # :nodoc:
      # Yields, ends the message and commits. `over` is called when the token is about to be used. After an
      # error the transaction is rolled back, also when the work is left by break or throw.
      def self.commit_with(link, autocommit, job, over, &work)
        is_open = false
        link.run(Statements::NO_AUTOCOMMIT) if autocommit
        link.begin
        is_open = true
        link.run(Statements::MARK)
        do_work(job, &work)
        over.call
        end_within(link, job)
        link.commit
        is_open = false
      ensure
        is_open &&= !succeeds? { link.rollback }
        # To turn autocommit on would commit what is open.
        is_over = !is_open && (!autocommit || succeeds? { link.run(Statements::AUTOCOMMIT) })
        link.discard unless is_over
      end

      def self.do_work(job)
        begin
          yield
        rescue StandardError => error
          raise unless job.lost?

          raise LeaseLost, "the lease of #{job.token} has ended: #{error.message}"
        end
        raise LeaseLost, "the lease of #{job.token} has ended: somebody else may have its message" if job.lost?
        raise Retry.new(job.failure.reason, delay: job.failure.delay) if job.failure
      end

      def self.end_within(link, job)
        begin
          link.run(Statements::CHECK_MARK)
        rescue StandardError => error
          raise unless Errors.number_of(error) == Errors::NO_SAVEPOINT

          # Then the work has gone with its transaction, or is not only there.
          raise Error, "the transaction of the job had ended before its message, as a deadlock does"
        end
        # Last, so that the row is locked for a short time only.
        return if link.run(Statements.ack([job.token])).first == "1"

        raise LeaseLost, "the lease of #{job.token} has ended: somebody else has this message"
      end

      def self.succeeds?
        yield
        true
      rescue StandardError
        false
      end
      private_class_method :do_work, :end_within, :succeeds?
    end
  end
end
