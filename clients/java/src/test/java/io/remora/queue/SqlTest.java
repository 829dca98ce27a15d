package io.remora.queue;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.remora.queue.Ender.Ending;
import java.sql.SQLException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;

/** What needs no server. */
class SqlTest {
    @Test
    void textMeansTheSameInEveryMode() {
        assertEquals("'it''s'", Sql.value("it's"));
        assertEquals("_utf8mb4 x'615c62'", Sql.value("a\\b"));
        assertEquals("_utf8mb4 x'c3a9'", Sql.value("\u00e9"));
        assertEquals("_utf8mb4 x'7f'", Sql.value("\u007f"));
        assertEquals("_utf8mb4 x'00'", Sql.value("\0"));
        assertEquals("NULL", Sql.value(null));
        assertEquals("`a``b`", Sql.quoted("a`b"));
        assertEquals("\\u00e9\\ud83d\\ude00\\u007f", Sql.escaped("\u00e9\ud83d\ude00\u007f"));
        assertEquals("'it''s \\\\'", JobQueue.literal("it's \\"));
        assertEquals("'1.500'", Sql.seconds(Duration.ofMillis(1500)));
        assertEquals("'0.005'", Sql.seconds(Duration.ofMillis(5)));
    }

    @Test
    void answersAreRead() {
        assertEquals(List.of(), Json.read(" [ ] "));
        assertEquals(List.of(Map.of("a", "1", "b", List.of("-1.5e3", "true"))),
                Json.read("[ { \"a\" : 1 , \"b\":[-1.5e3,\"true\"] } ]\n"));
        assertEquals(Collections.singletonMap("a", null), Json.read("{\"a\":null}"));
        assertEquals("\"\\/\b\f\n\r\t\u00e9\ud83d\ude00", Json.read("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\ud83d\\ude00\""));
        for (String wrong : List.of("", "[", "[1", "[1 2]", "{\"a\" 1}", "{a:1}", "\"a", "\"\\u12", "\"\\", "[],", "[,]")) {
            assertThrows(IllegalArgumentException.class, () -> Json.read(wrong), wrong);
        }
    }

    @Test
    void tokensAreSeparatedByCommasThatAreInNoName() {
        assertEquals(Set.of("`a,b`.`c``,d`:1-2", "x.y:3-4"),
                Leased.staleIn(new String[] {"0", "`a,b`.`c``,d`:1-2,x.y:3-4"}));
        assertEquals(Set.of(), Leased.staleIn(new String[] {"1", null}));
    }

    @Test
    void errorsAreLastingOrInterruptedOrNeither() {
        for (int number : List.of(1046, 1049, 1064, 1103, 1142, 1143, 1146, 1210, 1305, 51001, 51007)) {
            assertTrue(Errors.isLasting(new SQLException("x", "x", number)), number + "");
        }
        for (int number : List.of(0, 1213, 1317, 51000, 51008)) {
            assertFalse(Errors.isLasting(new SQLException("x", "x", number)), number + "");
        }
        assertFalse(Errors.isLasting(new SQLException((String) null)));
        assertTrue(Errors.isLasting(new IllegalArgumentException("x")));
        assertTrue(Errors.isLasting(new QueueException("x")));
        assertTrue(Errors.isInterrupted(new SQLException("x", "x", 1969)));
        assertFalse(Errors.isInterrupted(new SQLException("x", "x", 1213)));
        assertEquals(1213, Errors.numberOf(new IllegalStateException(new SQLException("x", "x", 1213))));
        Exception one = new Exception("one");
        one.initCause(new Exception("circle", one));
        assertEquals(0, Errors.numberOf(one));
    }

    @Test
    void failuresAreTold() {
        assertEquals(new Failure("x", "NULL"), Failure.of(new Exception("x")));
        assertEquals(new Failure("java.lang.Exception", "NULL"), Failure.of(new Exception()));
        assertEquals(new Failure("later", "'60.000'"),
                Failure.of(new Exception("wrapped", new RetryException("later", Duration.ofMinutes(1)))));
        assertEquals(new Failure("now", "'0.000'"), Failure.of(new RetryException("now", Duration.ofMillis(-5))));
        assertTrue(Sql.nack(Failure.of(new Exception("x".repeat(5000))), List.of("t")).length() < 1100);
    }

    @Test
    void endsOfTheSameKindAreToldTogether() {
        Ender ender = new Ender(null, Duration.ZERO, new Book(), null);
        Leased job = new Leased("t", 1, null, Map.of());
        ender.finish();
        ender.end(List.of(Ending.failed(job, new Exception("x")), Ending.failed(job, new RetryException("x", Duration.ZERO)),
                Ending.failed(job, new Exception("x")), Ending.done(job), Ending.untried(job), Ending.done(job)));
        List<Integer> sizes = new ArrayList<>();
        for (int count = 0; count < 5; count++) {
            sizes.add(ender.next().size());
        }
        assertEquals(List.of(2, 1, 2, 1, 0), sizes);
        ender.end(Collections.nCopies(Sql.TOKENS_AT_ONCE + 1, Ending.done(job)));
        assertEquals(List.of(Sql.TOKENS_AT_ONCE, 1), List.of(ender.next().size(), ender.next().size()));
    }

    @Test
    void pausesAreLongerAndLonger() {
        Pauses pauses = new Pauses();
        for (long wanted : new long[] {100, 200, 400, 800, 1600, 3200, 5000, 5000}) {
            assertEquals(Duration.ofMillis(wanted), pauses.next());
        }
        pauses.reset();
        assertEquals(Duration.ofMillis(100), pauses.next());
    }

    @Test
    void codecsReadWhatTheyWrite() throws Exception {
        byte[] bytes = {0, -1, 5};
        assertEquals("\"AP8F\"", Codec.bytes().encode(bytes));
        assertArrayEquals(bytes, Codec.bytes().decode("\"AP8F\""));
        assertNull(Codec.bytes().decode(null));
        JacksonCodec<List<Integer>> codec = JacksonCodec.of(new ObjectMapper(), new TypeReference<>() {});
        assertEquals(List.of(1, 2), codec.decode(codec.encode(List.of(1, 2))));
        assertNull(codec.decode(null));
        assertEquals("\"\\u00E9\"", JacksonCodec.of(String.class).encode("\u00e9"));
    }

    @Test
    void whatIsNoNumberOrTimeIsRefused() {
        Duration negative = Duration.ofMillis(-1);
        JobQueue<String> queue = JobQueue.builder("x").build();
        for (Executable wrong : List.<Executable>of(
                () -> new Take().lease(Duration.ZERO), () -> new Take().wait(negative),
                () -> queue.worker(null).lease(Duration.ofNanos(5)), () -> queue.worker(null).wait(negative),
                () -> queue.worker(null).concurrency(0), () -> queue.batchWorker(0, null),
                () -> JobQueue.builder("x").tries(-1), () -> JobQueue.builder("x").keep(Duration.ofMillis(1500)),
                () -> JobQueue.builder("x").dedupeFor(Duration.ofSeconds(-1)),
                () -> JobQueue.builder("x").backoff(negative, 1, Duration.ZERO))) {
            assertThrows(IllegalArgumentException.class, wrong);
        }
        assertThrows(NullPointerException.class, () -> queue.worker(null).build());
    }
}
