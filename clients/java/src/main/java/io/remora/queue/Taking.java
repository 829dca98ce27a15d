package io.remora.queue;

import java.sql.Connection;
import java.sql.SQLException;
import java.util.List;

/** A {@link JobQueue#take}. */
final class Taking<T> {
    private static final System.Logger LOG = System.getLogger("io.remora.queue");

    private final JobQueue<T> queue;
    private final Connection on;
    private final Take options;

    Taking(JobQueue<T> queue, Connection on, Take options) {
        this.queue = queue;
        this.on = on;
        this.options = options;
    }

    <X extends Exception> boolean take(TransactionHandler<T, X> work) throws SQLException, InterruptedException, X {
        if (queue.checkLease(on, options.where, true)) {
            throw new InTransactionException("take() begins a transaction of its own: commit the one before, which"
                    + " may not see what was committed together with the message");
        }
        String[] answer = lease();
        if (Thread.interrupted()) {
            // It may have come while the wait was being ended.
            Leased.allOf(answer).forEach(job -> tell(Sql.release(List.of(job.token()))));
            throw new InterruptedException();
        }
        for (Leased job : Leased.allOf(answer)) {
            work(job, work);
            return true;
        }
        return false;
    }

    private String[] lease() throws SQLException, InterruptedException {
        if (Thread.interrupted()) {
            throw new InterruptedException();
        }
        int timeout = on.getNetworkTimeout();
        try {
            // Whoever gives up an answer earlier has leased a message to nobody.
            limit((int) options.wait.plus(Sql.max(options.lease, Sql.ANSWER)).toMillis());
            String sql = Sql.lease(queue.table(), options.where, options.lease, 1, options.wait);
            return Wait.run(on, sql, LOG);
        } catch (SQLException error) {
            if (Thread.interrupted()) {
                throw (InterruptedException) new InterruptedException().initCause(error);
            }
            throw error;
        } finally {
            Connections.quietly(() -> limit(timeout));
        }
    }

    private void limit(int millis) throws SQLException {
        on.setNetworkTimeout(Runnable::run, millis);
    }

    @SuppressWarnings("unchecked")
    private <X extends Exception> void work(Leased job, TransactionHandler<T, X> work) throws SQLException, X {
        Keeper keeper = queue.dataSource == null ? null : Keeper.start(queue.dataSource, options.lease, LOG);
        Runnable stopKeeping = () -> {
            if (keeper != null) {
                keeper.close();
            }
        };
        try {
            if (keeper != null) {
                keeper.add(job);
            }
            JdbcTransactions.runOn(on, EndingWork.of(job, () -> {
                job.over();
                stopKeeping.run();
            }, connection -> work.handle(Job.of(job, queue.codec), connection)));
        } catch (Throwable error) {
            // After ROLLBACK: until then the token may be in use.
            stopKeeping.run();
            if (!(error instanceof LeaseLostException)) {
                tell(Sql.nack(Failure.of(error), List.of(job.token())));
            }
            if (error instanceof Error fatal) {
                throw fatal;
            }
            throw (X) error;
        }
    }

    /**
     * Tells the queue of a message that is not done. The connection may be gone with an error, so another one
     * is tried. If that fails too, the lease ends by itself.
     */
    private void tell(String statement) {
        try {
            Sql.first(on, statement);
        } catch (SQLException error) {
            if (queue.dataSource == null || !isTold(statement)) {
                LOG.log(System.Logger.Level.WARNING,
                        "the failure of a job could not be told; it comes again when its lease has ended", error);
            }
        }
    }

    private boolean isTold(String statement) {
        try (Line line = new Line(queue.dataSource)) {
            return Connections.quietly(() -> line.run(statement, Sql.ANSWER));
        }
    }
}
