package io.remora.queue;

import java.sql.Connection;
import java.sql.SQLException;
import java.util.List;

/** Work and the end of its message, in one transaction. */
final class EndingWork {
    private EndingWork() {
    }

    /** The function {@code over} is called when the token is about to be used. */
    static Transactions.Work of(Leased job, Runnable over, Transactions.Work work) {
        return connection -> {
            Sql.first(connection, Sql.MARK);
            try {
                work.run(connection);
            } catch (Exception error) {
                if (job.isLost()) {
                    throw lost(job, error);
                }
                throw error;
            }
            if (job.isLost()) {
                throw lost(job, null);
            }
            if (job.failure() != null) {
                throw job.failure();
            }
            checkMark(connection);
            over.run();
            // Last, so that the row is locked for a short time only.
            if (!Sql.first(connection, Sql.ack(List.of(job.token())))[0].equals("1")) {
                throw lost(job, null);
            }
        };
    }

    private static LeaseLostException lost(Leased job, Exception cause) {
        LeaseLostException made = new LeaseLostException(job.token());
        made.initCause(cause);
        return made;
    }

    /** If the work has gone with its transaction, its message must not end. */
    private static void checkMark(Connection connection) throws SQLException {
        try {
            Sql.first(connection, Sql.CHECK_MARK);
        } catch (SQLException error) {
            if (Errors.numberOf(error) != Errors.NO_SAVEPOINT) {
                throw error;
            }
            throw new QueueException("the transaction of the job had ended before its message, as a deadlock does");
        }
    }
}
