package io.remora.queue;

import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import javax.sql.DataSource;

/**
 * A connection of a worker's own: opened at its first statement, and again after an error. It is used by one
 * thread.
 */
final class Line implements AutoCloseable {
    private final DataSource from;
    private volatile Connection connection;
    // As the pool gave it.
    private boolean autocommit;
    private int timeout;

    Line(DataSource from) {
        this.from = from;
    }

    private void open() throws SQLException {
        if (connection != null) {
            return;
        }
        Connection made = from.getConnection();
        try {
            autocommit = made.getAutoCommit();
            timeout = made.getNetworkTimeout();
            if (!autocommit) {
                made.setAutoCommit(true);
            }
        } catch (SQLException error) {
            Connections.discard(made);
            throw error;
        }
        connection = made;
    }

    /** Opens it if it is closed, and asks once whether it is what is needed. */
    void check(Check what) throws SQLException {
        if (connection == null) {
            open();
            withLimit(Sql.ANSWER, on -> {
                what.ask(on);
                return null;
            });
        }
    }

    /** Runs a statement whose answer comes within a time. */
    String[] run(String sql, Duration limit) throws SQLException {
        open();
        return withLimit(limit, on -> Sql.first(on, sql));
    }

    /** Runs a statement that waits in the server. See {@link Wait#run}. */
    String[] await(String sql, Duration limit, System.Logger log) throws SQLException {
        open();
        return withLimit(limit, on -> Wait.run(on, sql, log));
    }

    private String[] withLimit(Duration limit, Question question) throws SQLException {
        try {
            connection.setNetworkTimeout(Runnable::run, (int) limit.toMillis());
            return question.ask(connection);
        } catch (SQLException | RuntimeException error) {
            if (!Errors.isInterrupted(error)) {
                discard();
            }
            throw error;
        }
    }

    private void discard() {
        Connection old = connection;
        connection = null;
        Connections.discard(old);
    }

    /** Gives it back as it was. */
    @Override
    public void close() {
        if (connection == null) {
            return;
        }
        boolean isClean = Connections.quietly(() -> {
            connection.setNetworkTimeout(Runnable::run, timeout);
            if (!autocommit) {
                connection.setAutoCommit(false);
            }
            connection.close();
        });
        if (!isClean) {
            discard();
        }
        connection = null;
    }

    /** Ends, from another thread, what is under way. */
    void abort() {
        Connection open = connection;
        if (open != null) {
            Connections.abort(open);
        }
    }

    /** What is to be known of a connection. */
    @FunctionalInterface
    interface Check {
        void ask(Connection on) throws SQLException;
    }

    @FunctionalInterface
    private interface Question {
        String[] ask(Connection on) throws SQLException;
    }
}
