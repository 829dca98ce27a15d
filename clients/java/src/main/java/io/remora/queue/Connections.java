package io.remora.queue;

import java.sql.Connection;
import java.sql.SQLException;

/** The ends of connections that can't be as they were. */
final class Connections {
    private Connections() {
    }

    /** Closes a connection, so that a pool gives it to nobody. Afterwards nothing can be done with it. */
    static void discard(Connection connection) {
        quietly(() -> connection.abort(Runnable::run));
        // A pool sees by an error that there is nothing below its connection any more.
        quietly(() -> Sql.first(connection, "SELECT 1"));
        quietly(connection::close);
    }

    /** Ends what another thread does with a connection. A driver may connect to the server for that. */
    static void abort(Connection connection) {
        start("remora-queue-abort", () -> quietly(() -> connection.abort(Runnable::run)));
    }

    /** Whether it could be done. */
    static boolean quietly(Step step) {
        try {
            step.run();
            return true;
        } catch (SQLException | RuntimeException error) {
            return false;
        }
    }

    static Thread start(String name, Runnable what) {
        Thread thread = new Thread(what, name);
        thread.setDaemon(true);
        thread.start();
        return thread;
    }

    @FunctionalInterface
    interface Step {
        void run() throws SQLException;
    }
}
