package io.remora.queue;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.time.Instant;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

class QueueTest {
    /** Signs that a quoting, a character set, a template or JDBC may change. */
    private static final String ODD = "\u00e9\ud83d\ude00'\"\\';?:n%s\n\0{fn now()}";

    @Test
    void aMessageIsThereIfItsTransactionIs() throws Exception {
        try (Scene s = new Scene("there"); Connection connection = s.connection()) {
            JobQueue<Map<?, ?>> queue = s.made(JobQueue.builder("jobs", jackson()));
            connection.setAutoCommit(false);
            queue.put(connection, Map.of("n", 1));
            connection.rollback();
            assertEquals(0, s.count("jobs"));
            String id = queue.put(connection, Map.of("n", ODD));
            assertTrue(id.matches("[0-9a-f]{32}"), id);
            assertEquals(0, s.count("jobs"));
            connection.commit();
            assertTrue(s.value("SELECT payload FROM jobs").chars().allMatch(letter -> letter < 0x7f));
            Job<Map<?, ?>> job = s.taken(queue);
            assertEquals(id, job.id());
            assertEquals(Map.of("n", ODD), job.payload());
            assertEquals(1, job.tries());
            assertNull(job.why());
            assertTrue(job.fence() > 0);
            assertTrue(job.token().contains(":" + job.fence() + "-"));
            assertThrows(UnsupportedOperationException.class, () -> job.row().clear());
            assertNull(s.taken(queue));
            assertThrows(IllegalArgumentException.class, () -> queue.put(connection, Map.of("x", new Object())));
            assertThrows(IllegalArgumentException.class, () -> JobQueue.builder("jobs").build().put(connection, null));
        }
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    private static Codec<Map<?, ?>> jackson() {
        return (Codec) JacksonCodec.of(Map.class);
    }

    @Test
    void bytesAreBytesAgain() throws Exception {
        try (Scene s = new Scene("bytes")) {
            byte[] bytes = {0, -1, 92, 39};
            JobQueue<byte[]> queue = s.made(JobQueue.builder("bytes", Codec.bytes()), bytes);
            assertArrayEquals(bytes, s.taken(queue).payload());
        }
    }

    @Test
    void noOptionOfAConnectionChangesAMessage() throws Exception {
        Stream<String> options = Scene.DRIVER.equals("mysql")
                ? Stream.of("&characterEncoding=latin1", "&useServerPrepStmts=true&allowMultiQueries=true",
                        "&useLocalSessionState=true&useLocalTransactionState=true&rewriteBatchedStatements=true")
                : Stream.of("&allowMultiQueries=true&useServerPrepStmts=true", "&dumpQueriesOnException=true",
                        "&useBulkStmts=true&returnMultiValuesGeneratedIds=true");
        try (Scene s = new Scene("modes")) {
            JobQueue<String> queue = s.made(JobQueue.builder("modes").fifo());
            for (String option : options.toList()) {
                for (boolean autocommit : List.of(true, false)) {
                    Connection connection = s.connection(option);
                    Scene.execute(connection, "SET sql_mode = 'NO_BACKSLASH_ESCAPES,ANSI_QUOTES,STRICT_ALL_TABLES'");
                    connection.setAutoCommit(autocommit);
                    queue.put(connection, ODD, new Put().key(ODD));
                    if (!autocommit) {
                        connection.commit();
                    }
                    Take take = new Take().where("payload != " + JobQueue.literal("\\ {d 'x'}"));
                    Job<String> job = Scene.taken(queue, connection, take);
                    assertEquals(ODD, job.payload(), option);
                    assertEquals(ODD, job.row().get("message_key"), option);
                    assertEquals(autocommit, connection.getAutoCommit());
                }
            }
            assertEquals(0, s.count("modes"));
        }
    }

    @Test
    void aPlainQueueRefusesATransactionUnlessItIsMeant() throws Exception {
        try (Scene s = new Scene("plain"); Connection connection = s.connection()) {
            JobQueue<String> queue = s.made(JobQueue.builder("plain").plain());
            connection.setAutoCommit(false);
            assertThrows(InTransactionException.class, () -> queue.put(connection, "1"));
            connection.rollback();
            connection.setAutoCommit(true);
            Scene.execute(connection, "BEGIN");
            assertThrows(InTransactionException.class, () -> queue.put(connection, "1"));
            Message<String> meant = new Message<>("1", new Put().outsideTransaction());
            assertThrows(InTransactionException.class,
                    () -> queue.putMany(connection, List.of(meant, new Message<>("1"))));
            assertEquals(0, s.count("plain"));
            queue.putMany(connection, List.of(meant));
            Scene.execute(connection, "ROLLBACK");
            queue.put(connection, "2");
            assertEquals(2, s.count("plain"));
            assertThrows(QueueException.class, () -> Scene.taken(queue, connection, new Take()));
            assertThrows(QueueException.class,
                    () -> queue.transactionWorker((job, on) -> { }).dataSource(s.pool).build().run());
        }
    }

    @Test
    void theTableDecidesWhetherItIsAPartOfTransactions() throws Exception {
        try (Scene s = new Scene("decides"); Connection connection = s.connection()) {
            s.made(JobQueue.builder("really_plain").plain());
            s.made(JobQueue.builder("really_not"));
            s.run("CREATE TABLE other (id INT) ENGINE=InnoDB");
            connection.setAutoCommit(false);
            assertThrows(InTransactionException.class, () -> JobQueue.builder("really_plain").build().put(connection, "1"));
            JobQueue.builder("really_not").plain().build().put(connection, "1");
            for (String name : List.of("other", "nothing")) {
                assertThrows(NotAQueueException.class, () -> JobQueue.builder(name).build().put(connection, "1"));
            }
        }
    }

    @Test
    void aDelayNeedsNoCareForTimeZones() throws Exception {
        try (Scene s = new Scene("later"); Connection connection = s.connection()) {
            JobQueue<String> queue = s.made(JobQueue.builder("later"));
            Instant at = Instant.now().plusSeconds(3600);
            for (String zone : List.of("-05:00", "+00:00", "+05:00")) {
                Scene.execute(connection, "SET time_zone = '" + zone + "'");
                queue.put(connection, "delay", new Put().delay(Duration.ofMillis(3599_500)));
                queue.put(connection, "at", new Put().at(at));
            }
            String all = "SET STATEMENT queue_show_owned = ON FOR SELECT COUNT(*) FROM later WHERE ";
            assertEquals("6", s.value(all + "at IS NOT NULL"));
            assertEquals("6", s.value(all + "UNIX_TIMESTAMP(at) - UNIX_TIMESTAMP(NOW(6)) BETWEEN 3000 AND 3600"));
            for (Put wrong : List.of(new Put().at(at).delay(Duration.ofMillis(1)), new Put().delay(Duration.ofMillis(-1)))) {
                assertThrows(IllegalArgumentException.class, () -> queue.put(connection, "x", wrong));
            }
        }
    }

    @Test
    void aShortDelayIsExact() throws Exception {
        try (Scene s = new Scene("soon"); Connection connection = s.connection()) {
            JobQueue<String> queue = s.made(JobQueue.builder("soon"));
            queue.put(connection, "soon", new Put().delay(Duration.ofMillis(250)));
            assertNull(s.taken(queue));
            Job<String> job = s.taken(queue, new Take().wait(Scene.PATIENCE));
            // The row knows when it was due, and it was not given before.
            assertEquals("1", s.value("SELECT UTC_TIMESTAMP(6) >= '" + job.row().get("at") + "'"));
        }
    }

    @Test
    void keysDuplicatesAndPriorities() throws Exception {
        try (Scene s = new Scene("all"); Connection connection = s.connection()) {
            JobQueue<String> queue =
                    s.made(JobQueue.builder("queue").fifo().dedupeFor(Duration.ofMinutes(1)).priority());
            assertEquals(5, queue.putMany(connection, List.of(
                    new Message<>("1", new Put().key("a").priority(5)),
                    new Message<>("2", new Put().key("a").priority(1)),
                    new Message<>("3", new Put().key("b").priority(4)),
                    new Message<>("4", new Put().dedupe("x").priority(6)),
                    new Message<>("5", new Put().dedupe("x").priority(0)))).size());
            assertEquals(List.of(), queue.putMany(connection, List.of()));
            queue.create(connection);
            for (String wanted : List.of("3", "1", "2", "4")) {
                assertEquals(wanted, s.taken(queue).payload());
            }
            assertNull(s.taken(queue));
            JobQueue<String> bare = s.made(JobQueue.builder("bare"));
            for (Put wrong : List.of(new Put().key("a"), new Put().dedupe("a"), new Put().priority(1))) {
                assertThrows(IllegalArgumentException.class, () -> bare.put(connection, "x", wrong));
            }
            // While the first one waits, another one is left out; then no longer.
            JobQueue<String> waits = s.made(JobQueue.builder("waits").dedupe());
            for (int round = 0; round < 2; round++) {
                waits.put(connection, "x", new Put().dedupe("x"));
                waits.put(connection, "x", new Put().dedupe("x"));
                assertEquals(1, s.count("waits"));
                s.taken(waits);
            }
        }
    }

    @Test
    void aBadMessageLeavesNone() throws Exception {
        try (Scene s = new Scene("bad"); Connection connection = s.connection()) {
            JobQueue<String> queue = s.made(JobQueue.builder("bad").fifo());
            SQLException error = assertThrows(SQLException.class, () -> queue.putMany(connection,
                    List.of(new Message<>("1"), new Message<>("2", new Put().key("x".repeat(200))))));
            assertEquals(1406, error.getErrorCode());
            assertEquals(0, s.count("bad"));
        }
    }

    @Test
    void namesHaveAlmostAnySign() throws Exception {
        for (String wrong : List.of("", "a.b.c", "`a", "a\\b", ".a")) {
            assertThrows(IllegalArgumentException.class, () -> JobQueue.builder(wrong).build(), wrong);
        }
        try (Scene s = new Scene("names")) {
            String other = "`java." + Scene.DRIVER + " \u00e9`";
            s.run("CREATE DATABASE IF NOT EXISTS " + other);
            try {
                String name = other + ".`a.b,c``d:e?'\"%s :x\u00e9{fn}`";
                JobQueue<String> queue = s.made(JobQueue.builder(name).dataSource(s.pool), "it's");
                assertEquals(name, queue.table());
                assertEquals("a.b,c`d:e?'\"%s :x\u00e9{fn}", queue.name());
                assertEquals(queue.name() + "_dead", queue.dead());
                assertEquals("java." + Scene.DRIVER + " \u00e9", queue.database());
                Worker worker = queue.worker(null).where("payload = 'x'").wait(Scene.LONG).build();
                worker.start();
                s.untilWaiting(1);
                worker.close();
                worker.await();
                assertEquals("it's", s.taken(queue, new Take().where("payload = " + JobQueue.literal("it's"))).payload());
                if (Scene.DRIVER.equals("mysql")) {
                    Connection latin = s.connection("&characterEncoding=latin1");
                    assertThrows(QueueException.class, () -> Scene.taken(queue, latin, new Take()));
                }
            } finally {
                s.run("DROP DATABASE " + other);
            }
        }
    }

    @Test
    void numbersThatJsonWouldChangeAreText() throws Exception {
        try (Scene s = new Scene("big")) {
            s.run("CREATE TABLE big (id BIGINT UNSIGNED, payload TEXT, data BLOB, none INT) ENGINE=QUEUE TRANSACTIONAL=1");
            s.run("INSERT INTO big VALUES (18446744073709551615, 'no JSON', 'bytes', NULL), (1, NULL, '', 5)");
            JobQueue<String> queue = JobQueue.builder("big").build();
            Job<String> job = s.taken(queue);
            assertEquals("18446744073709551615", job.id());
            assertEquals("no JSON", job.payload());
            assertTrue(job.row().containsKey("none"));
            assertNull(job.row().get("none"));
            assertEquals("bytes", new String(Base64.getDecoder().decode(job.row().get("data"))));
            job = s.taken(queue);
            assertNull(job.payload());
            assertEquals("5", job.row().get("none"));
            s.run("CREATE TABLE bare (n INT) ENGINE=QUEUE TRANSACTIONAL=1");
            s.run("INSERT INTO bare VALUES (5)");
            Job<String> bare = s.taken(JobQueue.builder("bare").build());
            assertNull(bare.id());
            assertNull(bare.payload());
            assertEquals(Map.of("n", "5"), bare.row());
        }
    }

    @Test
    void optionsAreThoseOfTheTable() throws Exception {
        try (Scene s = new Scene("options")) {
            JobQueue.Builder<String> builder = JobQueue.builder("of").tries(7).keep(Duration.ofHours(1))
                    .backoff(Duration.ofMillis(1500), 1.5, Duration.ofMinutes(1));
            JobQueue<String> queue = builder.build();
            // What is built does not change any more.
            builder.tries(0).keep(Duration.ZERO);
            s.made(JobQueue.builder("x"));
            try (Connection connection = s.connection()) {
                queue.create(connection);
            }
            String table = s.value("SHOW CREATE TABLE " + queue.table());
            for (String wanted : List.of("`TRIES`='7'", "`BACKOFF`='1.500,1.5,60.000'", "`KEEP`='3600'",
                    "`DEAD`='`of_dead`'", "TRANSACTIONAL=1")) {
                assertTrue(table.contains(wanted), wanted + " " + table);
            }
            assertTrue(s.value("SHOW CREATE TABLE x").contains("`BACKOFF`='10,2,3600'"));
            JobQueue<String> endless = s.made(JobQueue.builder("endless").tries(0));
            assertEquals(1, endless.ddl().size());
            assertFalse(s.value("SHOW CREATE TABLE endless").contains("TRIES"));
        }
    }
}
