package io.remora.queue;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assertions.fail;

import com.zaxxer.hikari.HikariDataSource;
import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.sql.DataSource;
import org.junit.jupiter.api.Test;

class WorkerTest {
    private static List<String> sorted(List<String> of) {
        return of.stream().sorted().toList();
    }

    @Test
    void jobsAreDoneOrTriedAgainOrDead() throws Exception {
        try (Scene s = new Scene("some")) {
            JobQueue<String> queue = s.made(Scene.quick("some", s.pool));
            List<String> ids = s.put(queue, "good", "twice", "never", "later");
            Book told = new Book();
            List<String> tried = new CopyOnWriteArrayList<>();
            queue.worker(job -> {
                tried.add(job.payload() + " " + job.tries());
                if (job.payload().equals("never") || job.payload().equals("twice") && job.tries() == 1) {
                    throw new IllegalStateException("no such h\u00f6st");
                }
                if (job.payload().equals("later")) {
                    throw new RetryException("not yet", Duration.ofHours(1));
                }
                assertEquals(job.tries() > 1 ? "no such h\\u00f6st" : null, job.why());
                assertTrue(ids.contains(job.id()));
            }).log(told).build().runOnce();
            assertEquals(List.of("good 1", "later 1", "never 1", "never 2", "never 3", "twice 1", "twice 2"), sorted(tried));
            assertEquals(4, told.lines().size());
            assertEquals(List.of(ids.get(2) + "|never|3|no such h\\u00f6st"),
                    s.rows("SELECT id, payload, failed, why FROM some_dead"));
            assertEquals(List.of("1"), s.failures("some"));
            Scene.assertClean(s.pool, true);
        }
    }

    @Test
    void aPoolWithoutAutocommitIsAsGood() throws Exception {
        try (Scene s = new Scene("manual")) {
            HikariDataSource pool = s.pool(Scene.url(s.database, ""), 5, false);
            JobQueue<String> queue = s.made(Scene.quick("manual", pool), "1", "2");
            queue.worker(job -> { }).build().runOnce();
            assertEquals(0, s.count("manual"));
            Scene.assertClean(pool, false);
        }
    }

    @Test
    void aPoolThatLooksAtNothingGetsItsConnectionsAsTheyWere() throws Exception {
        try (Scene s = new Scene("trusting"); Connection on = s.connection()) {
            on.setAutoCommit(false);
            on.setNetworkTimeout(Runnable::run, 7000);
            Connection kept = Through.proxy(Connection.class, (self, method, values) ->
                    method.getName().equals("close") ? null : Through.call(on, method, values));
            try (Line line = new Line(Through.proxy(DataSource.class, (self, method, values) -> kept))) {
                assertEquals("1", line.run("SELECT @@autocommit", Duration.ofSeconds(5))[0]);
                assertEquals(5000, on.getNetworkTimeout());
            }
            assertEquals(List.of(false, 7000), List.of(on.getAutoCommit(), on.getNetworkTimeout()));
            assertEquals(List.of("0"), Scene.rows(on, "SELECT @@autocommit"));
        }
    }

    @Test
    void aPoolGivesNobodyADiscardedConnection() throws Exception {
        try (Scene s = new Scene("discarded")) {
            try (Connection first = s.pool.getConnection()) {
                Connections.discard(first);
            }
            try (Connection next = s.pool.getConnection()) {
                assertEquals(List.of("1"), Scene.rows(next, "SELECT 1"));
            }
        }
    }

    @Test
    void whateverAHandlerDoesIsAFailedTry() throws Exception {
        try (Scene s = new Scene("odd")) {
            JobQueue<String> queue = s.made(Scene.quick("odd", s.pool).tries(1), "error", "null", "wrapped");
            Book told = new Book();
            queue.worker(job -> {
                switch (job.payload()) {
                    case "error":
                        throw new StackOverflowError("oh");
                    case "null":
                        throw new NullPointerException();
                    default:
                        throw new IllegalStateException("wrapped", new RetryException("again"));
                }
            }).log(told).concurrency(3).build().runOnce();
            assertEquals(List.of("error|oh", "null|java.lang.NullPointerException", "wrapped|again"),
                    sorted(s.rows("SELECT payload, why FROM odd_dead")));
            assertTrue(told.has("StackOverflowError"));
            assertFalse(told.has("wrapped"));
        }
    }

    @Test
    void aPayloadThatCannotBeReadIsAFailedTry() throws Exception {
        try (Scene s = new Scene("typed")) {
            s.made(Scene.quick("typed", s.pool).tries(1), "text", "1");
            JobQueue<Integer> queue = JobQueue.builder("typed", JacksonCodec.of(Integer.class)).dataSource(s.pool).build();
            List<String> done = new CopyOnWriteArrayList<>();
            queue.worker(job -> done.add("" + job.payload())).log(new Book()).build().runOnce();
            assertEquals(List.of("1"), done);
            assertTrue(s.value("SELECT why FROM typed_dead").contains("Unrecognized token"));
            s.put(JobQueue.builder("typed").build(), "text", "2", "3");
            Book told = new Book();
            queue.batchWorker(5, jobs -> jobs.forEach(job -> done.add("" + job.payload()))).log(told).build().runOnce();
            assertEquals(List.of("1", "2", "3"), done);
            assertEquals(2, s.count("typed_dead"));
            assertTrue(told.has("can't be read"));
        }
    }

    @Test
    void noMoreRunThanAreAllowedAndAsManyAsCan() throws Exception {
        try (Scene s = new Scene("many")) {
            AtomicInteger running = new AtomicInteger();
            AtomicInteger most = new AtomicInteger();
            CountDownLatch together = new CountDownLatch(3);
            Pattern rows = Pattern.compile(", '(\\d+)'");
            // What is leased can begin at once.
            DataSource from = s.through("queue_lease", (sql, run) -> {
                Matcher asked = rows.matcher(sql);
                assertTrue(asked.find());
                most.accumulateAndGet(running.get() + Integer.parseInt(asked.group(1)), Math::max);
                run.run();
            });
            JobQueue<String> queue = s.made(Scene.quick("many", from));
            s.putAll(queue, Collections.nCopies(30, "x"));
            AtomicInteger done = new AtomicInteger();
            queue.worker(job -> {
                most.accumulateAndGet(running.incrementAndGet(), Math::max);
                together.countDown();
                Scene.await("three run", together);
                done.incrementAndGet();
                running.decrementAndGet();
            }).concurrency(3).build().runOnce();
            assertEquals(List.of(3, 30, 0), List.of(most.get(), done.get(), s.count("many")));
        }
    }

    @Test
    void noMoreIsAskedForThanCanBegin() throws Exception {
        try (Scene s = new Scene("asked")) {
            List<Integer> asked = new CopyOnWriteArrayList<>();
            Pattern rows = Pattern.compile(", '(\\d+)'");
            DataSource from = s.through("queue_lease", (sql, run) -> {
                Matcher found = rows.matcher(sql);
                assertTrue(found.find());
                asked.add(Integer.parseInt(found.group(1)));
                run.run();
            });
            JobQueue<String> queue = s.made(Scene.quick("asked", from), "1");
            CountDownLatch mayEnd = new CountDownLatch(1);
            Worker worker = queue.worker(job -> Scene.await("it may end", mayEnd)).wait(Scene.LONG).concurrency(2).build();
            worker.start();
            // One handler works, and the worker waits for the other one's message.
            s.untilWaiting(1);
            s.until("it has asked again", () -> asked.size() == 2);
            mayEnd.countDown();
            worker.close();
            assertEquals(List.of(2, 1), asked);
        }
    }

    @Test
    void manyJobsEndWithOneStatement() throws Exception {
        try (Scene s = new Scene("few")) {
            AtomicInteger statements = new AtomicInteger();
            CountDownLatch done = new CountDownLatch(60);
            DataSource from = s.through("queue_ack", (sql, run) -> {
                statements.incrementAndGet();
                // The first end is under way until all jobs are done.
                quietly("all are done", done);
                run.run();
            });
            JobQueue<String> queue = s.made(Scene.quick("few", from));
            s.putAll(queue, Collections.nCopies(60, "x"));
            queue.worker(job -> done.countDown()).concurrency(30).build().runOnce();
            assertEquals(0, s.count("few"));
            assertTrue(statements.get() <= 4);
        }
    }

    static void quietly(String what, CountDownLatch event) {
        try {
            Scene.await(what, event);
        } catch (InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }

    @Test
    void aBatchEndsWithoutThoseThatFailed() throws Exception {
        try (Scene s = new Scene("batch")) {
            JobQueue<String> queue = s.made(Scene.quick("batch", s.pool));
            List<String> payloads = new ArrayList<>();
            for (int number = 0; number < 25; number++) {
                payloads.add(String.valueOf(number));
            }
            s.putAll(queue, payloads);
            List<Integer> sizes = new CopyOnWriteArrayList<>();
            queue.batchWorker(10, jobs -> {
                sizes.add(jobs.size());
                boolean isLast = false;
                for (Job<String> job : jobs) {
                    if (List.of("7", "23").contains(job.payload())) {
                        job.fail("not this one", Duration.ofHours(1));
                    }
                    isLast |= Integer.parseInt(job.payload()) >= 20;
                }
                if (isLast) {
                    throw new IllegalStateException("the last ones");
                }
            }).log(new Book()).build().runOnce();
            assertEquals(List.of(10, 10, 5), sizes.subList(0, 3));
            // Those of the last batch are tried three times, then they are dead. 23 has said when.
            assertEquals(List.of(2, 4), List.of(s.count("batch"), s.count("batch_dead")));
        }
    }

    @Test
    void aTransactionEndsTheMessageOrChangesNothing() throws Exception {
        for (boolean autocommit : List.of(true, false)) {
            try (Scene s = new Scene("exact")) {
                AtomicBoolean failing = new AtomicBoolean();
                HikariDataSource pool = s.pool(Scene.url(s.database, ""), 5, autocommit);
                DataSource from = Through.of(pool, "COMMIT", (sql, run) -> {
                    if (failing.getAndSet(false)) {
                        throw new SQLException("no COMMIT");
                    }
                    run.run();
                });
                JobQueue<String> queue = s.made(Scene.quick("exact", from), "1", "2", "3", "4", "5", "6", "7");
                s.run("CREATE TABLE exactly (n INT PRIMARY KEY) ENGINE=InnoDB");
                s.run("INSERT INTO exactly VALUES (3)");
                List<String> whys = new CopyOnWriteArrayList<>();
                queue.transactionWorker((job, on) -> {
                    if (job.tries() > 1) {
                        whys.add(job.payload() + " " + job.why());
                    }
                    if (job.payload().equals("7") && job.tries() == 1) {
                        TakeTest.deadlock(s, on);
                    }
                    Scene.execute(on, "INSERT INTO exactly VALUES (" + job.payload() + ")");
                    switch (job.payload() + " " + job.tries()) {
                        case "2 1" -> throw new IllegalStateException("after its work");
                        case "4 1", "4 2" -> job.fail("not now");
                        case "5 1" -> failing.set(true);
                        case "6 1" -> throw new StackOverflowError("oh");
                        default -> { }
                    }
                }).log(new Book()).build().runOnce();
                assertEquals(List.of("1", "2", "3", "4", "5", "6", "7"), s.rows("SELECT n FROM exactly ORDER BY n"));
                assertEquals(List.of("2 after its work", "4 not now", "4 not now", "5 no COMMIT", "6 oh",
                        "7 the transaction of the job had ended before its message, as a deadlock does"),
                        sorted(whys).stream().filter(why -> !why.startsWith("3")).toList());
                // A transaction that fails each time does not come for ever.
                assertEquals(List.of("3|3"), s.rows("SELECT payload, failed FROM exact_dead"));
                assertEquals(0, s.count("exact"));
                s.untilNoTransaction();
                Scene.assertClean(pool, autocommit);
            }
        }
    }

    @Test
    void anExactWorkerCommitsNothingWhenItsLeaseIsLost() throws Exception {
        try (Scene s = new Scene("stolen")) {
            DataSource from = s.through("queue_extend", (sql, run) -> {
                throw new SQLException("not now");
            });
            JobQueue<String> queue = s.made(Scene.quick("stolen", from), "1");
            s.run("CREATE TABLE done (n INT) ENGINE=InnoDB");
            Worker[] worker = new Worker[1];
            worker[0] = queue.transactionWorker((job, on) -> {
                Scene.execute(on, "INSERT INTO done VALUES (1)");
                worker[0].stop();
                s.value("SELECT queue_lease_json(600, 1, 'stolen', 60)");
            }).lease(Duration.ofMillis(200)).log(new Book()).build();
            worker[0].run();
            assertEquals(List.of(0, 0), List.of(s.count("done"), s.count("stolen_dead")));
            assertEquals(List.of("1"), s.failures("stolen"));
        }
    }

    @Test
    void whatWillNeverWorkEndsAWorker() throws Exception {
        try (Scene s = new Scene("wrong")) {
            JobQueue<String> queue = s.made(Scene.quick("wrong", s.pool));
            JobHandler<String> none = job -> fail("none was to come");
            Worker worker = queue.worker(none).where("nothing = 1").log(new Book()).build();
            assertEquals(51001, Errors.numberOf(assertThrows(SQLException.class, worker::run)));
            worker.start();
            assertThrows(SQLException.class, worker::await);
            assertFalse(worker.isRunning());
            assertThrows(NotAQueueException.class,
                    () -> Scene.quick("nothing", s.pool).build().worker(none).log(new Book()).build().run());
            HikariDataSource closed = s.pool("");
            closed.close();
            SQLException error = assertThrows(SQLException.class,
                    () -> queue.worker(none).dataSource(closed).log(new Book()).build().run());
            assertTrue(error.getMessage().contains("has been closed"));
            DataSource wrong = Through.proxy(DataSource.class, (self, method, values) -> {
                throw new IllegalArgumentException("no such driver");
            });
            assertInstanceOf(IllegalArgumentException.class, assertThrows(IllegalStateException.class,
                    () -> queue.worker(none).dataSource(wrong).log(new Book()).build().run()).getCause());
        }
    }

    @Test
    void aWorkerContinuesWhenItsConnectionsEnd() throws Exception {
        for (boolean transaction : List.of(false, true)) {
            try (Scene s = new Scene("broken")) {
                JobQueue<String> queue = s.made(Scene.quick("broken", s.pool));
                List<String> done = new CopyOnWriteArrayList<>();
                Worker worker = (transaction
                        ? queue.transactionWorker((job, on) -> done.add(job.payload() + " " + job.tries()))
                        : queue.worker(job -> done.add(job.payload() + " " + job.tries())))
                        .wait(Scene.LONG).log(new Book()).build();
                worker.start();
                String others = "SELECT id FROM information_schema.processlist WHERE db = '" + s.database
                        + "' AND id != CONNECTION_ID()";
                for (int payload = 0; payload < 3; payload++) {
                    s.untilWaiting(1);
                    List<String> before = s.rows(others);
                    for (String id : before) {
                        s.kill(id);
                    }
                    s.until("another one waits", () -> {
                        List<String> waiting = s.waiting();
                        return waiting.size() == 1 && !before.contains(waiting.get(0));
                    });
                    s.put(queue, "" + payload);
                    int wanted = payload + 1;
                    s.until("it is done", () -> done.size() == wanted && s.count("broken") == 0);
                }
                worker.close();
                assertEquals(List.of("0 1", "1 1", "2 1"), done);
            }
        }
    }

    @Test
    void aWaitThatSomebodyHasEndedBeginsAgain() throws Exception {
        try (Scene s = new Scene("killed")) {
            JobQueue<String> queue = s.made(Scene.quick("killed", s.pool));
            Book told = new Book();
            BlockingQueue<String> done = new LinkedBlockingQueue<>();
            Worker worker = queue.worker(job -> done.add(job.payload())).wait(Scene.LONG).log(told).build();
            worker.start();
            s.untilWaiting(1);
            List<String> before = s.waiting();
            s.run("KILL QUERY " + before.get(0));
            s.put(queue, "1");
            assertEquals("1", Scene.next("it is done", done));
            s.untilWaiting(1);
            // On the same connection.
            assertEquals(before, s.waiting());
            worker.close();
            assertEquals(List.of(), told.lines());
            Scene.assertClean(s.pool, true);
        }
    }

    @Test
    void aStopEndsTheWaitAndLetsJobsEnd() throws Exception {
        try (Scene s = new Scene("stopped")) {
            JobQueue<String> queue = s.made(Scene.quick("stopped", s.pool));
            for (boolean byInterrupt : List.of(false, true)) {
                s.run("DELETE FROM stopped");
                CountDownLatch began = new CountDownLatch(1);
                CountDownLatch mayEnd = new CountDownLatch(1);
                List<String> done = new CopyOnWriteArrayList<>();
                Worker worker = queue.worker(job -> {
                    began.countDown();
                    Scene.await("it may end", mayEnd);
                    done.add(job.payload());
                }).wait(Scene.LONG).concurrency(2).build();
                Scene.Beside running = new Scene.Beside(worker::run);
                s.untilWaiting(1);
                assertThrows(IllegalStateException.class, worker::start);
                s.put(queue, "1");
                Scene.await("it begins", began);
                // One handler works, and the worker waits for the other one's message.
                s.untilWaiting(1);
                if (byInterrupt) {
                    running.thread.interrupt();
                } else {
                    worker.stop();
                }
                s.untilWaiting(0);
                s.put(queue, "2");
                assertEquals(List.of(false, true), List.of(running.ended.isDone(), worker.isRunning()));
                mayEnd.countDown();
                if (byInterrupt) {
                    assertInstanceOf(InterruptedException.class, running.end());
                } else {
                    assertNull(running.end());
                }
                assertEquals(List.of("1"), done);
                // Nobody has taken the second one, and the first one has ended.
                assertEquals(List.of("2"), s.rows("SELECT payload FROM stopped"));
                assertEquals(List.of(), s.failures("stopped"));
                Scene.assertClean(s.pool, true);
            }
        }
    }

    @Test
    void aSecondInterruptInterruptsTheHandlers() throws Exception {
        try (Scene s = new Scene("twice_interrupted")) {
            JobQueue<String> queue = s.made(Scene.quick("q", s.pool), "1");
            CountDownLatch began = new CountDownLatch(1);
            Worker worker = queue.worker(job -> {
                began.countDown();
                new CountDownLatch(1).await();
            }).wait(Scene.LONG).concurrency(2).log(new Book()).build();
            Scene.Beside running = new Scene.Beside(worker::run);
            Scene.await("it begins", began);
            s.untilWaiting(1);
            running.thread.interrupt();
            s.untilWaiting(0);
            assertFalse(running.ended.isDone());
            running.thread.interrupt();
            assertInstanceOf(InterruptedException.class, running.end());
            Job<String> job = s.taken(queue);
            assertEquals(List.of(2, "java.lang.InterruptedException"), List.of(job.tries(), job.why()));
        }
    }

    @Test
    void aStopReturnsWhatHasNotBegunAndItWasNotTried() throws Exception {
        try (Scene s = new Scene("returned")) {
            Worker[] worker = new Worker[1];
            DataSource from = s.through("queue_lease_json", (sql, run) -> {
                run.run();
                // The message is here, and nobody has begun with it.
                worker[0].stop();
            });
            JobQueue<String> queue = s.made(Scene.quick("returned", from), "1");
            worker[0] = queue.worker(job -> fail("it is too late to begin")).wait(Scene.LONG).build();
            worker[0].run();
            assertEquals(1, s.taken(queue).tries());
        }
    }

    @Test
    void aWorkerRunsAgainAfterAStop() throws Exception {
        try (Scene s = new Scene("twice")) {
            JobQueue<String> queue = s.made(Scene.quick("twice", s.pool), "1");
            List<String> done = new CopyOnWriteArrayList<>();
            List<String> names = new CopyOnWriteArrayList<>();
            Worker worker = queue.worker(job -> {
                done.add(job.payload());
                names.add(Thread.currentThread().getName());
            }).threads(run -> new Thread(run, "mine")).build();
            worker.runOnce();
            s.put(queue, "2");
            worker.runOnce();
            assertEquals(List.of("1", "2"), done);
            assertEquals(List.of("mine", "mine"), names);
            Scene.assertClean(s.pool, true);
        }
    }

    @Test
    void onceDoesNotEndWhileAJobMayComeBack() throws Exception {
        try (Scene s = new Scene("once")) {
            BlockingQueue<String> emptyAnswers = new LinkedBlockingQueue<>();
            CountDownLatch mayEnd = new CountDownLatch(1);
            DataSource from = s.through("queue_", (sql, run) -> {
                String answer = run.run();
                if (sql.contains("queue_lease_json") && answer.equals("[]") && mayEnd.getCount() > 0) {
                    // The answer is under way, and meanwhile the job puts another message, and ends.
                    mayEnd.countDown();
                    try {
                        s.until("it has ended", () -> s.rows("SELECT payload FROM once").equals(List.of("2")));
                    } catch (Exception error) {
                        throw new SQLException(error);
                    }
                    emptyAnswers.add(answer);
                }
            });
            JobQueue<String> queue = s.made(Scene.quick("once", from), "1");
            List<String> done = new CopyOnWriteArrayList<>();
            queue.worker(job -> {
                done.add(job.payload());
                if (job.payload().equals("1")) {
                    Scene.await("it may end", mayEnd);
                    s.put(queue, "2");
                }
            }).concurrency(2).build().runOnce();
            assertEquals(List.of("1", "2"), done);
            assertEquals(1, emptyAnswers.size());
        }
    }
}
