package io.remora.queue;

import java.sql.Connection;

/**
 * Does the work of a message on a connection, in the transaction that ends the message. It leaves COMMIT and
 * ROLLBACK to its caller. See {@link JobQueue#transactionWorker} and {@link JobQueue#take}.
 *
 * @param <X> what it throws
 */
@FunctionalInterface
public interface TransactionHandler<T, X extends Exception> {
    /** After its return the work and the end of the message are committed. After an exception, neither is. */
    void handle(Job<T> job, Connection connection) throws X;
}
