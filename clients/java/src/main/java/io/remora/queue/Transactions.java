package io.remora.queue;

import java.sql.Connection;

/**
 * Where a worker's transactions are from. By default, each is one of a connection of the DataSource; a
 * framework can have its own.
 */
@FunctionalInterface
public interface Transactions {
    /**
     * Runs work in a transaction that begins with it. Commits when it has returned. Rolls back after an
     * exception of it, which comes out.
     */
    void run(Work work) throws Exception;

    /** What is to be done in a transaction. */
    @FunctionalInterface
    interface Work {
        /** Does it on the connection of the transaction. */
        void run(Connection connection) throws Exception;
    }
}
