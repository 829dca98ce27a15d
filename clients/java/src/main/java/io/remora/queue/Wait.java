package io.remora.queue;

import java.sql.Connection;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/**
 * A statement that waits in the server. No driver hears an interrupt meanwhile. So another thread runs the
 * statement, and an interrupt of this one sends KILL QUERY, by which nothing is lost: a connection that is
 * closed while the answer is on its way has leased a message to nobody.
 */
final class Wait {
    // Between two KILL QUERY: one that comes before the wait does nothing.
    private static final long KILL_EVERY_MS = 200;
    // After so long without success the connection is closed instead.
    private static final long KILL_PATIENCE_MS = 5000;

    private final Connection on;
    private final Statement statement;
    private final FutureTask<String[]> task;
    private final System.Logger log;

    private Wait(Connection on, Statement statement, String sql, System.Logger log) {
        this.on = on;
        this.statement = statement;
        this.task = new FutureTask<>(() -> Sql.first(statement, sql));
        this.log = log;
    }

    /**
     * Runs a statement, and gives its first row. After an interrupt that comes earlier than the answer, this
     * thread is still interrupted.
     */
    static String[] run(Connection on, String sql, System.Logger log) throws SQLException {
        try (Statement statement = on.createStatement()) {
            return new Wait(on, statement, sql, log).run();
        }
    }

    private String[] run() throws SQLException {
        Connections.start("remora-queue-wait", task);
        try {
            return result();
        } catch (InterruptedException interrupt) {
            try {
                return end();
            } finally {
                Thread.currentThread().interrupt();
            }
        }
    }

    private String[] result() throws SQLException, InterruptedException {
        try {
            return task.get();
        } catch (ExecutionException error) {
            if (error.getCause() instanceof SQLException cause) {
                throw cause;
            }
            throw new IllegalStateException(error.getCause());
        }
    }

    private String[] end() throws SQLException {
        Thread killing = Connections.start("remora-queue-kill", this::kill);
        boolean isAborted = !hasEnded();
        if (isAborted) {
            Connections.abort(on);
        }
        try {
            while (true) {
                try {
                    return result();
                } catch (InterruptedException again) {
                    // It is being ended already.
                }
            }
        } finally {
            // A KILL QUERY that is under way must not end the connection's next statement.
            if (!isAborted && !joins(killing)) {
                Connections.abort(on);
            }
        }
    }

    /** Whether it ends in time. */
    private boolean hasEnded() {
        long until = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(KILL_PATIENCE_MS);
        while (true) {
            try {
                task.get(until - System.nanoTime(), TimeUnit.NANOSECONDS);
                return true;
            } catch (ExecutionException error) {
                return true;
            } catch (TimeoutException late) {
                return false;
            } catch (InterruptedException again) {
                // It is being ended already.
            }
        }
    }

    private static boolean joins(Thread killing) {
        while (true) {
            try {
                killing.join(KILL_PATIENCE_MS);
                return !killing.isAlive();
            } catch (InterruptedException again) {
                // It is being ended already.
            }
        }
    }

    private void kill() {
        while (!task.isDone()) {
            try {
                statement.cancel();
                task.get(KILL_EVERY_MS, TimeUnit.MILLISECONDS);
            } catch (SQLException error) {
                if (!task.isDone()) {
                    log.log(System.Logger.Level.WARNING, "the wait could not be ended, which is tried again", error);
                    pause();
                }
            } catch (ExecutionException error) {
                return;
            } catch (TimeoutException | InterruptedException late) {
                // Again.
            }
        }
    }

    private static void pause() {
        try {
            Thread.sleep(KILL_EVERY_MS);
        } catch (InterruptedException nobody) {
            // This thread is only known here.
        }
    }
}
