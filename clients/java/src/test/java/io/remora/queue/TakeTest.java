package io.remora.queue;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assertions.fail;

import com.zaxxer.hikari.HikariDataSource;
import java.io.IOException;
import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import javax.sql.DataSource;
import org.junit.jupiter.api.Test;

class TakeTest {
    private static final TransactionHandler<String, RuntimeException> NEVER = (job, on) -> fail("none was to come");

    /** A scene with a table, and the builder of a queue that tries twice. */
    private static JobQueue.Builder<String> prepare(Scene s, String name) throws SQLException {
        s.run("CREATE TABLE done (n INT PRIMARY KEY) ENGINE=InnoDB");
        return JobQueue.builder(name).tries(2).backoff(Duration.ZERO, 1, Duration.ZERO);
    }

    private static List<String> done(Scene s) throws SQLException {
        return s.rows("SELECT n FROM done ORDER BY n");
    }

    private static TransactionHandler<String, SQLException> inserts(int number) {
        return (job, on) -> Scene.execute(on, "INSERT INTO done VALUES (" + number + ")");
    }

    @Test
    void aMessageAndItsWorkAreOneCommit() throws Exception {
        try (Scene s = new Scene("take")) {
            JobQueue<String> queue = s.made(prepare(s, "t"));
            for (boolean autocommit : List.of(true, false)) {
                Connection on = s.connection();
                on.setAutoCommit(autocommit);
                s.run("DELETE FROM done");
                s.put(queue, "x" + autocommit);
                IOException wrong = new IOException("no such host");
                assertSame(wrong, assertThrows(IOException.class, () -> queue.take(on, (job, connection) -> {
                    inserts(77).handle(job, connection);
                    throw wrong;
                })));
                assertEquals(List.of(), done(s));
                assertTrue(queue.take(on, (job, connection) -> {
                    assertSame(on, connection);
                    assertEquals(List.of("x" + autocommit, 2, "no such host"),
                            List.of(job.payload(), job.tries(), job.why()));
                    inserts(7).handle(job, connection);
                }));
                assertEquals(List.of("7"), done(s));
                assertEquals(0, s.count("t"));
                assertFalse(queue.take(on, NEVER));
                assertEquals(autocommit, on.getAutoCommit());
            }
            s.untilNoTransaction();
        }
    }

    @Test
    void aJobThatFailsEachTimeUsesItsTriesUp() throws Exception {
        try (Scene s = new Scene("poison"); Connection on = s.connection()) {
            JobQueue<String> queue = s.made(prepare(s, "poison"), "1");
            s.run("INSERT INTO done VALUES (77)");
            for (int round = 0; round < 2; round++) {
                SQLException error = assertThrows(SQLException.class, () -> queue.take(on, inserts(77)));
                assertEquals(1062, error.getErrorCode());
            }
            assertFalse(queue.take(on, NEVER));
            assertEquals(List.of("1|2"), s.rows("SELECT payload, failed FROM poison_dead"));
        }
    }

    @Test
    void aRetrySaysWhenAndSoDoesFail() throws Exception {
        try (Scene s = new Scene("again"); Connection on = s.connection()) {
            JobQueue<String> queue = s.made(prepare(s, "again"));
            for (TransactionHandler<String, Exception> failing : List.<TransactionHandler<String, Exception>>of(
                    (job, connection) -> {
                        throw new RetryException("later", Duration.ofHours(1));
                    }, (job, connection) -> job.fail("later", Duration.ofHours(1)))) {
                s.put(queue, "1");
                RetryException error = assertThrows(RetryException.class, () -> queue.take(on, failing));
                assertEquals(List.of("later", Duration.ofHours(1)), List.of(error.getMessage(), error.delay()));
                assertFalse(queue.take(on, NEVER));
            }
            assertEquals("2", s.value("SELECT due_later FROM information_schema.queues WHERE table_schema = '"
                    + s.database + "' AND table_name = 'again'"));
        }
    }

    @Test
    void anErrorIsAFailedTry() throws Exception {
        try (Scene s = new Scene("errors"); Connection on = s.connection()) {
            JobQueue<String> queue = s.made(prepare(s, "errors"), "1");
            assertThrows(StackOverflowError.class, () -> queue.take(on, (job, connection) -> {
                inserts(1).handle(job, connection);
                throw new StackOverflowError("oh");
            }));
            assertEquals(List.of(), done(s));
            assertTrue(on.getAutoCommit());
            Job<String> job = s.taken(queue);
            assertEquals(List.of(2, "oh"), List.of(job.tries(), job.why()));
        }
    }

    @Test
    void nothingIsCommittedWhenTheLeaseIsLost() throws Exception {
        try (Scene s = new Scene("lost"); Connection on = s.connection()) {
            JobQueue<String> queue = s.made(prepare(s, "lost"), "1");
            // Without a DataSource to extend it from.
            assertThrows(LeaseLostException.class, () -> queue.take(on, new Take().lease(Duration.ofMillis(50)), (job, connection) -> {
                inserts(5).handle(job, connection);
                assertTrue(s.value("SELECT queue_lease_json(600, 1, 'lost', 60)").contains("\"try\":2"));
            }));
            assertEquals(List.of(), done(s));
            assertEquals(0, s.count("lost_dead"));
            assertEquals(List.of("1"), s.failures("lost"));
        }
    }

    @Test
    void theWorkIsToldThatTheLeaseIsLost() throws Exception {
        try (Scene s = new Scene("told"); Connection on = s.connection()) {
            JobQueue.Builder<String> builder = prepare(s, "told");
            s.made(builder);
            for (boolean throwing : List.of(true, false)) {
                CountDownLatch stolen = new CountDownLatch(1);
                DataSource from = s.through("queue_extend", (sql, run) -> {
                    await(stolen);
                    run.run();
                });
                JobQueue<String> queue = builder.dataSource(from).build();
                s.run("DELETE FROM told");
                s.put(queue, "1");
                LeaseLostException lost = assertThrows(LeaseLostException.class, () -> queue.take(on, new Take().lease(Duration.ofMillis(300)), (job, connection) -> {
                    inserts(1).handle(job, connection);
                    assertFalse(job.isLost());
                    s.value("SELECT queue_lease_json(600, 1, 'told', 60)");
                    stolen.countDown();
                    s.until("it is told", job::isLost);
                    if (throwing) {
                        throw new IOException("seen");
                    }
                }));
                assertEquals(throwing, lost.getCause() instanceof IOException);
                assertEquals(List.of(), done(s));
                assertEquals("1", s.failures("told").get(0));
                s.run("TRUNCATE told");
            }
        }
    }

    private static void await(CountDownLatch event) {
        try {
            Scene.await("the event", event);
        } catch (InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }

    @Test
    void aLeaseIsExtendedWhileTheWorkGoesOn() throws Exception {
        try (Scene s = new Scene("kept"); Connection on = s.connection()) {
            JobQueue<String> queue = s.made(prepare(s, "kept").dataSource(s.pool), "1");
            assertTrue(queue.take(on, new Take().lease(Duration.ofSeconds(3)), (job, connection) -> s.untilExtended("kept", 0.5)));
            Scene.assertClean(s.pool, true);
        }
    }

    @Test
    void itBeginsWithATransactionOfItsOwn() throws Exception {
        try (Scene s = new Scene("own"); Connection on = s.connection()) {
            JobQueue<String> queue = s.made(prepare(s, "own"));
            on.setAutoCommit(false);
            Scene.rows(on, "SELECT * FROM done");
            assertThrows(InTransactionException.class, () -> queue.take(on, NEVER));
            on.rollback();
            assertFalse(queue.take(on, NEVER));
            // What others commit together with a message is seen.
            s.put(queue, "1");
            s.run("INSERT INTO done VALUES (3)");
            assertTrue(queue.take(on, (job, connection) ->
                    assertEquals(List.of("3"), Scene.rows(connection, "SELECT n FROM done"))));
        }
    }

    @Test
    void aFailureIsToldAlsoWhenTheConnectionIsGone() throws Exception {
        try (Scene s = new Scene("gone"); Connection on = s.connection()) {
            JobQueue<String> queue = s.made(prepare(s, "gone").dataSource(s.pool), "1");
            SQLException error = assertThrows(SQLException.class, () -> queue.take(on, (job, connection) -> {
                s.run("KILL " + Scene.rows(connection, "SELECT CONNECTION_ID()").get(0));
                Scene.rows(connection, "SELECT SLEEP(600)");
            }));
            Job<String> job = s.taken(queue);
            assertEquals(2, job.tries());
            assertEquals(Sql.escaped(error.getMessage()), job.why());
            Scene.assertClean(s.pool, true);
        }
    }

    @Test
    void workThatADeadlockHasRolledBackDoesNotEndTheMessage() throws Exception {
        try (Scene s = new Scene("deadlock")) {
            JobQueue<String> queue = s.made(prepare(s, "deadlock"));
            for (boolean autocommit : List.of(true, false)) {
                Connection on = s.connection();
                on.setAutoCommit(autocommit);
                s.put(queue, "1");
                QueueException error = assertThrows(QueueException.class, () -> queue.take(on, (job, connection) -> {
                    deadlock(s, connection);
                    // Whoever ignores this is in no transaction, or in another one.
                    inserts(1).handle(job, connection);
                }));
                assertTrue(error.getMessage().contains("the transaction of the job had ended"));
                assertEquals(List.of(), done(s));
                assertEquals(autocommit, on.getAutoCommit());
                assertEquals(List.of(autocommit ? "1" : "0"), Scene.rows(on, "SELECT @@autocommit"));
            }
        }
    }

    /** Makes the server roll a transaction back: another one waits for it, and has changed more. */
    static void deadlock(Scene s, Connection on) throws Exception {
        s.run("DROP TABLE IF EXISTS ballast, locked");
        s.run("CREATE TABLE ballast ENGINE=InnoDB SELECT seq FROM seq_1_to_100");
        s.run("CREATE TABLE locked (n INT PRIMARY KEY, of INT) ENGINE=InnoDB");
        s.run("INSERT INTO locked VALUES (1, 0), (2, 0)");
        try (Connection other = s.connection()) {
            other.setAutoCommit(false);
            Scene.execute(other, "UPDATE ballast SET seq = seq + 1");
            Scene.execute(other, "UPDATE locked SET of = 9 WHERE n = 2");
            Scene.execute(on, "UPDATE locked SET of = 1 WHERE n = 1");
            String id = Scene.rows(other, "SELECT CONNECTION_ID()").get(0);
            Scene.Beside changing =
                    new Scene.Beside(() -> Scene.execute(other, "UPDATE locked SET of = 9 WHERE n = 1"));
            // Whoever reads this more often than each 0.1 s sees the same copy again and again.
            s.until("the other one waits", () -> {
                Thread.sleep(150);
                return s.value("SELECT COUNT(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT' AND"
                        + " trx_mysql_thread_id = " + id).equals("1");
            });
            SQLException error =
                    assertThrows(SQLException.class, () -> Scene.execute(on, "UPDATE locked SET of = 1 WHERE n = 2"));
            assertEquals(1213, error.getErrorCode());
            assertNull(changing.end());
            other.rollback();
        }
    }

    @Test
    void theEndOfTheTransactionByTheWorkIsAFailedTry() throws Exception {
        try (Scene s = new Scene("ended"); Connection on = s.connection()) {
            JobQueue<String> queue = s.made(prepare(s, "ended"), "1");
            assertThrows(QueueException.class, () -> queue.take(on, (job, connection) -> connection.setAutoCommit(true)));
            assertThrows(QueueException.class, () -> queue.take(on, (job, connection) -> Scene.execute(connection, "ROLLBACK")));
            assertEquals(1, s.count("ended_dead"));
            assertTrue(on.getAutoCommit());
        }
    }

    @Test
    void nothingIsLeftOnAConnectionOfThePool() throws Exception {
        try (Scene s = new Scene("left")) {
            JobQueue<String> queue = s.made(prepare(s, "left").tries(0));
            for (boolean autocommit : List.of(true, false)) {
                HikariDataSource pool = s.pool(Scene.url(s.database, ""), 10, autocommit);
                for (int round = 0; round < 2; round++) {
                    s.put(queue, "1");
                    try (Connection on = pool.getConnection()) {
                        assertThrows(IOException.class, () -> queue.take(on, (job, connection) -> {
                            inserts(1).handle(job, connection);
                            throw new IOException("it fails");
                        }));
                    }
                    try (Connection on = pool.getConnection()) {
                        assertFalse(queue.take(on, new Take().where("payload = 'x'"), NEVER));
                        assertTrue(queue.take(on, (job, connection) -> { }));
                    }
                }
                Scene.assertClean(pool, autocommit);
                assertEquals(0.0, s.leasedUntil("left"));
            }
            s.untilNoTransaction();
        }
    }

    /** A pool gives the next one a connection that works, and the old one is closed. */
    @Test
    void aConnectionIsClosedThatCannotBeAsItWas() throws Exception {
        for (boolean autocommit : List.of(true, false)) {
            try (Scene s = new Scene("closed")) {
                JobQueue<String> queue = s.made(prepare(s, "closed").tries(0));
                for (String fails : autocommit ? List.of("ROLLBACK", "SET autocommit = 1") : List.of("ROLLBACK")) {
                    s.run("DELETE FROM closed");
                    s.put(queue, "1");
                    HikariDataSource pool = s.pool(Scene.url(s.database, ""), 10, autocommit);
                    List<String> ids = new ArrayList<>();
                    try (Connection on = pool.getConnection()) {
                        Connection tapped = Through.of(on, fails, (sql, run) -> {
                            throw new SQLException("not now");
                        });
                        TransactionHandler<String, Exception> work = (job, connection) -> {
                            ids.addAll(Scene.rows(connection, "SELECT CONNECTION_ID()"));
                            inserts(1).handle(job, connection);
                            if (fails.equals("ROLLBACK")) {
                                throw new IOException("on purpose");
                            }
                        };
                        if (fails.equals("ROLLBACK")) {
                            assertThrows(IOException.class, () -> queue.take(tapped, work));
                        } else {
                            assertTrue(queue.take(tapped, work));
                        }
                    }
                    assertEquals(fails.equals("ROLLBACK") ? List.of() : List.of("1"), done(s));
                    s.until("it is closed", () -> s.value(
                            "SELECT COUNT(*) FROM information_schema.processlist WHERE id = " + ids.get(0)).equals("0"));
                    try (Connection on = pool.getConnection()) {
                        assertFalse(Scene.rows(on, "SELECT CONNECTION_ID()").equals(ids));
                    }
                    s.run("DELETE FROM done");
                }
            }
        }
    }

    @Test
    void autocommitIsOnAgainWhenATransactionCannotBeginOrEnd() throws Exception {
        try (Scene s = new Scene("unbegun")) {
            JobQueue<String> queue = s.made(prepare(s, "unbegun"));
            for (String fails : List.of("SET autocommit = 0", "SAVEPOINT", "RELEASE", "COMMIT")) {
                s.put(queue, "1");
                SQLException purpose = new SQLException("on purpose");
                Connection raw = s.connection();
                Connection on = Through.of(raw, fails, (sql, run) -> {
                    if (!fails.equals("COMMIT")) {
                        run.run();
                    }
                    throw purpose;
                });
                assertSame(purpose, assertThrows(SQLException.class, () -> queue.take(on, inserts(1))));
                assertEquals(List.of("1"), Scene.rows(raw, "SELECT @@autocommit"));
                assertTrue(raw.getAutoCommit());
                assertEquals(List.of(), done(s));
                Job<String> job = s.taken(queue);
                assertEquals(List.of(2, "on purpose"), List.of(job.tries(), job.why()));
            }
        }
    }

    @Test
    void aPutEndsTheWait() throws Exception {
        try (Scene s = new Scene("woken"); Connection on = s.connection()) {
            JobQueue<String> queue = s.made(prepare(s, "woken"));
            Scene.Beside taking = new Scene.Beside(() -> assertTrue(queue.take(on, new Take().wait(Scene.LONG),
                    (job, connection) -> assertEquals("5", job.payload()))));
            s.untilWaiting(1);
            s.put(queue, "5");
            assertNull(taking.end());
        }
    }

    @Test
    void anInterruptEndsTheWaitAndTakesNothing() throws Exception {
        try (Scene s = new Scene("interrupted"); Connection on = s.connection()) {
            JobQueue<String> queue = s.made(prepare(s, "interrupted"));
            boolean[] isSet = new boolean[1];
            Scene.Beside taking = new Scene.Beside(() -> {
                try {
                    queue.take(on, new Take().wait(Scene.LONG), NEVER);
                } finally {
                    isSet[0] = Thread.interrupted();
                }
            });
            s.untilWaiting(1);
            taking.thread.interrupt();
            assertInstanceOf(InterruptedException.class, taking.end());
            assertFalse(isSet[0]);
            s.untilWaiting(0);
            s.put(queue, "1");
            // KILL QUERY leaves the connection as it was.
            assertEquals(1, Scene.taken(queue, on, new Take()).tries());
            assertEquals(0, on.getNetworkTimeout());
            s.put(queue, "2");
            Scene.Beside before = new Scene.Beside(() -> {
                Thread.currentThread().interrupt();
                queue.take(on, NEVER);
            });
            assertInstanceOf(InterruptedException.class, before.end());
            assertEquals(1, s.count("interrupted"));
        }
    }

    @Test
    void aMessageThatComesWhileTheWaitIsEndedIsReturned() throws Exception {
        try (Scene s = new Scene("late")) {
            JobQueue<String> queue = s.made(prepare(s, "late"), "1");
            Thread[] taker = new Thread[1];
            CountDownLatch leased = new CountDownLatch(1);
            Connection on = Through.of(s.connection(), "queue_lease", (sql, run) -> {
                run.run();
                taker[0].interrupt();
                leased.countDown();
            });
            Scene.Beside taking = new Scene.Beside(() -> {
                taker[0] = Thread.currentThread();
                queue.take(on, new Take().wait(Scene.LONG), NEVER);
            });
            Scene.await("it is leased", leased);
            assertInstanceOf(InterruptedException.class, taking.end());
            assertEquals(1, s.taken(queue).tries());
        }
    }

    @Test
    void aWaitMayBeLongerThanTheTimeoutOfTheDriver() throws Exception {
        try (Scene s = new Scene("longer"); Connection on = s.connection("&socketTimeout=500")) {
            JobQueue<String> queue = s.made(prepare(s, "longer"));
            Scene.Beside taking = new Scene.Beside(() -> assertTrue(queue.take(on, new Take().wait(Scene.LONG), (job, connection) -> {
                // And then it is as it was.
                assertEquals(500, connection.getNetworkTimeout());
            })));
            s.untilWaiting(1);
            String before = s.waiting().get(0);
            // The wait is still there after the time-out.
            s.until("it waits for longer", () -> Double.parseDouble(s.value(
                    "SELECT COALESCE(MAX(time_ms), 1e9) FROM information_schema.processlist WHERE id = " + before
                            + " AND state = 'Waiting in queue_lease'")) > 1200);
            s.put(queue, "1");
            assertNull(taking.end());
        }
    }
}
