package io.remora.queue;

import java.sql.Connection;
import javax.sql.DataSource;

/** Transactions on connections of a pool. */
final class JdbcTransactions implements Transactions {
    private final DataSource from;

    JdbcTransactions(DataSource from) {
        this.from = from;
    }

    @Override
    public void run(Work work) throws Exception {
        try (Connection connection = from.getConnection()) {
            runOn(connection, work);
        }
    }

    /**
     * Runs work in a transaction of a connection, which may have autocommit. What can't be as it was
     * afterwards is closed.
     *
     * <p>COMMIT and ROLLBACK are statements: a driver's calls may send nothing if it knows of no transaction.
     */
    static void runOn(Connection connection, Work work) throws Exception {
        boolean autocommit = connection.getAutoCommit();
        boolean isOpen = true;
        try {
            if (autocommit) {
                // What the work does after a deadlock is not committed by itself then.
                connection.setAutoCommit(false);
            }
            work.run(connection);
            Sql.first(connection, "COMMIT");
            isOpen = false;
        } catch (Throwable error) {
            isOpen = !Connections.quietly(() -> Sql.first(connection, "ROLLBACK"));
            throw error;
        } finally {
            // This would commit a transaction that is open.
            if (isOpen || autocommit && !Connections.quietly(() -> connection.setAutoCommit(true))) {
                Connections.discard(connection);
            }
        }
    }
}
