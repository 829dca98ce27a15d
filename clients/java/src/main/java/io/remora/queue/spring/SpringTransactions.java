package io.remora.queue.spring;

import io.remora.queue.Transactions;
import java.sql.Connection;
import java.sql.SQLException;
import java.sql.Statement;
import javax.sql.DataSource;
import org.springframework.jdbc.datasource.DataSourceUtils;
import org.springframework.transaction.PlatformTransactionManager;
import org.springframework.transaction.TransactionDefinition;
import org.springframework.transaction.TransactionStatus;
import org.springframework.transaction.support.DefaultTransactionDefinition;
import org.springframework.transaction.support.TransactionSynchronization;
import org.springframework.transaction.support.TransactionSynchronizationManager;

/**
 * Transactions of a transaction manager, for {@link io.remora.queue.Worker.Builder#transactions}. What uses
 * the same manager and DataSource within the work is a part of them.
 */
public final class SpringTransactions implements Transactions {
    private final PlatformTransactionManager manager;
    private final DataSource dataSource;

    /** The manager must be one for this DataSource. */
    public SpringTransactions(PlatformTransactionManager manager, DataSource dataSource) {
        this.manager = manager;
        this.dataSource = dataSource;
    }

    @Override
    public void run(Work work) throws Exception {
        TransactionStatus status = manager.getTransaction(
                new DefaultTransactionDefinition(TransactionDefinition.PROPAGATION_REQUIRES_NEW));
        try {
            Connection connection = DataSourceUtils.getConnection(dataSource);
            try {
                TransactionSynchronizationManager.registerSynchronization(new EndOfUnknown(connection));
                work.run(connection);
                if (status.isRollbackOnly()) {
                    // A part of the work has failed, and somebody has caught that.
                    throw new IllegalStateException("the transaction of the job was marked as rollback-only");
                }
            } finally {
                DataSourceUtils.releaseConnection(connection, dataSource);
            }
        } catch (Throwable error) {
            rollBack(status, error);
            throw error;
        }
        manager.commit(status);
    }

    private void rollBack(TransactionStatus status, Throwable error) {
        try {
            manager.rollback(status);
        } catch (RuntimeException second) {
            error.addSuppressed(second);
        }
    }

    /**
     * When COMMIT has failed, the transaction may be open. The manager then turns autocommit on, which would
     * commit it.
     */
    private record EndOfUnknown(Connection connection) implements TransactionSynchronization {
        @Override
        public void afterCompletion(int status) {
            if (status != STATUS_UNKNOWN) {
                return;
            }
            try (Statement statement = connection.createStatement()) {
                statement.execute("ROLLBACK");
            } catch (SQLException error) {
                abort();
            }
        }

        private void abort() {
            try {
                connection.abort(Runnable::run);
            } catch (SQLException error) {
                // Then it is closed already.
            }
        }
    }
}
