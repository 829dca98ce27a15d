package io.remora.queue;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assertions.fail;

import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import javax.sql.DataSource;

/** A test with a database of its own. */
public final class Scene implements AutoCloseable {
    /** The driver that is tested: mariadb or mysql. */
    public static final String DRIVER = System.getProperty("driver", "mariadb");
    /** Longer than anything takes that works. What does not work would take for ever. */
    public static final Duration PATIENCE = Duration.ofSeconds(
            Long.parseLong(System.getenv().getOrDefault("REMORA_QUEUE_PATIENCE", "60")));
    public static final Duration LONG = Duration.ofMinutes(10);

    public final String database;
    /** What the program under test has. */
    public final HikariDataSource pool;
    /** What the test itself looks from. */
    private final Connection eye;
    private final List<AutoCloseable> ends = new ArrayList<>();

    public Scene(String name) throws SQLException {
        if (System.getenv("REMORA_QUEUE_SOCKET") == null) {
            fail("REMORA_QUEUE_SOCKET must name the socket of a server");
        }
        database = "java_" + DRIVER + "_" + name;
        eye = DriverManager.getConnection(url("", ""));
        run("DROP DATABASE IF EXISTS " + database);
        run("CREATE DATABASE " + database);
        run("USE " + database);
        pool = pool("");
    }

    public static String url(int port, String database, String parameters) {
        return "jdbc:" + DRIVER + "://127.0.0.1:" + port + "/" + database + "?user=root&sslMode=disabled"
                + parameters;
    }

    public static String url(String database, String parameters) {
        return url(Bridge.shared().port(), database, parameters);
    }

    public HikariDataSource pool(String parameters) {
        return pool(url(database, parameters), 10, true);
    }

    public HikariDataSource pool(String url, int size, boolean autocommit) {
        HikariConfig config = new HikariConfig();
        config.setJdbcUrl(url);
        config.setMaximumPoolSize(size);
        config.setAutoCommit(autocommit);
        config.setMinimumIdle(0);
        config.setConnectionTimeout(2000);
        config.setInitializationFailTimeout(-1);
        HikariDataSource made = new HikariDataSource(config);
        ends.add(made);
        return made;
    }

    /** Statements with a word in them go through a function. */
    DataSource through(String word, Through.Way way) {
        return Through.of(pool(""), word, way);
    }

    /** A connection of no pool, which ends with the test. */
    Connection connection(String parameters) throws SQLException {
        Connection made = DriverManager.getConnection(url(database, parameters));
        ends.add(made);
        return made;
    }

    Connection connection() throws SQLException {
        return connection("");
    }

    void atEnd(AutoCloseable what) {
        ends.add(what);
    }

    public void run(String sql) throws SQLException {
        synchronized (eye) {
            execute(eye, sql);
        }
    }

    /** Ends a connection, if it is still there. */
    public void kill(String id) throws SQLException {
        try {
            run("KILL CONNECTION " + id);
        } catch (SQLException error) {
            if (error.getErrorCode() != 1094) {
                throw error;
            }
        }
    }

    static void execute(Connection on, String sql) throws SQLException {
        try (Statement statement = on.createStatement()) {
            statement.setEscapeProcessing(false);
            statement.execute(sql);
        }
    }

    /** Rows of a statement, each as text with a bar between its columns. */
    public List<String> rows(String sql) throws SQLException {
        synchronized (eye) {
            return rows(eye, sql);
        }
    }

    static List<String> rows(Connection on, String sql) throws SQLException {
        try (Statement statement = on.createStatement()) {
            statement.setEscapeProcessing(false);
            statement.execute(sql);
            List<String> all = new ArrayList<>();
            try (ResultSet rows = statement.getResultSet()) {
                int count = rows.getMetaData().getColumnCount();
                while (rows.next()) {
                    List<String> texts = new ArrayList<>();
                    for (int at = 1; at <= count; at++) {
                        texts.add(String.valueOf(rows.getString(at)));
                    }
                    all.add(String.join("|", texts));
                }
            }
            return all;
        }
    }

    public String value(String sql) throws SQLException {
        return rows(sql).get(0);
    }

    public int count(String table) throws SQLException {
        return Integer.parseInt(value("SELECT COUNT(*) FROM " + table));
    }

    /** When the last lease of a table ends, in seconds; 0 when there is none. */
    double leasedUntil(String table) throws SQLException {
        return Double.parseDouble(value("SELECT COALESCE(CAST(MAX(UNIX_TIMESTAMP(until)) AS DOUBLE), 0) FROM"
                + " information_schema.queue_owned WHERE table_schema = '" + database + "' AND table_name = '" + table
                + "' AND connection_id = 0"));
    }

    /** Waits until the lease of a table ends later by so many seconds. */
    void untilExtended(String table, double by) throws Exception {
        double first = leasedUntil(table);
        until("it is extended", () -> leasedUntil(table) > first + by);
    }

    /** How many tries each owned row of a table has failed. */
    public List<String> failures(String table) throws SQLException {
        return rows("SELECT failed FROM information_schema.queue_owned WHERE table_schema = '" + database
                + "' AND table_name = '" + table + "'");
    }

    /** The connections that wait for a message. */
    List<String> waiting() throws SQLException {
        return rows("SELECT id FROM information_schema.processlist WHERE db = '" + database
                + "' AND state = 'Waiting in queue_lease'");
    }

    public void untilWaiting(int count) throws Exception {
        until(count + " connections wait", () -> waiting().size() == count);
    }

    /** A copy of innodb_trx is shown for 0.1 s, and a longer time to those who ask more often. */
    void untilNoTransaction() throws Exception {
        until("no transaction is open", () -> {
            Thread.sleep(150);
            List<String> found = rows("SELECT trx_mysql_thread_id, trx_state, trx_started, NOW(), info, command FROM"
                    + " information_schema.innodb_trx JOIN information_schema.processlist ON trx_mysql_thread_id = id"
                    + " WHERE db = '" + database + "'");
            return found.isEmpty();
        });
    }

    @FunctionalInterface
    public interface Ready {
        boolean isReady() throws Exception;
    }

    public void until(String what, Ready ready) throws Exception {
        long end = System.nanoTime() + PATIENCE.toNanos();
        while (!ready.isReady()) {
            if (System.nanoTime() > end) {
                fail("not in time: " + what);
            }
            Thread.sleep(10);
        }
    }

    static void await(String what, CountDownLatch event) throws InterruptedException {
        assertTrue(event.await(PATIENCE.toSeconds(), TimeUnit.SECONDS), "not in time: " + what);
    }

    static <V> V next(String what, BlockingQueue<V> of) throws InterruptedException {
        V found = of.poll(PATIENCE.toSeconds(), TimeUnit.SECONDS);
        return found == null ? fail("not in time: " + what) : found;
    }

    @FunctionalInterface
    public interface Step {
        void run() throws Exception;
    }

    /** Something that runs beside the test. */
    static final class Beside {
        final Thread thread;
        final CompletableFuture<Throwable> ended = new CompletableFuture<>();

        Beside(Step step) {
            thread = Connections.start("beside", () -> {
                Throwable result = null;
                try {
                    step.run();
                } catch (Throwable error) {
                    result = error;
                }
                ended.complete(result);
            });
        }

        /** Its exception. Null if it has returned. */
        Throwable end() throws Exception {
            return ended.get(PATIENCE.toSeconds(), TimeUnit.SECONDS);
        }
    }

    /** A queue of text that tries at once, three times. */
    public static JobQueue.Builder<String> quick(String name, DataSource from) {
        return JobQueue.builder(name).dataSource(from).tries(3).backoff(Duration.ZERO, 1, Duration.ZERO);
    }

    /** A queue that is there, with payloads. */
    @SafeVarargs
    @SuppressWarnings("varargs")
    public final <T> JobQueue<T> made(JobQueue.Builder<T> of, T... payloads) throws SQLException {
        JobQueue<T> queue = of.build();
        synchronized (eye) {
            queue.create(eye);
        }
        putAll(queue, List.of(payloads));
        return queue;
    }

    @SafeVarargs
    @SuppressWarnings("varargs")
    public final <T> List<String> put(JobQueue<T> queue, T... payloads) throws SQLException {
        return putAll(queue, List.of(payloads));
    }

    <T> List<String> putAll(JobQueue<T> queue, List<T> payloads) throws SQLException {
        List<Message<T>> messages = new ArrayList<>();
        for (T payload : payloads) {
            messages.add(new Message<>(payload));
        }
        synchronized (eye) {
            return queue.putMany(eye, messages);
        }
    }

    /** Takes a message, and gives it. Null if none came. */
    static <T> Job<T> taken(JobQueue<T> queue, Connection on, Take options) throws Exception {
        BlockingQueue<Job<T>> found = new LinkedBlockingQueue<>();
        boolean came = queue.take(on, options, (job, connection) -> found.add(job));
        assertEquals(came, !found.isEmpty());
        return found.poll();
    }

    <T> Job<T> taken(JobQueue<T> queue, Take options) throws Exception {
        try (Connection on = pool.getConnection()) {
            return taken(queue, on, options);
        }
    }

    <T> Job<T> taken(JobQueue<T> queue) throws Exception {
        return taken(queue, new Take());
    }

    /** What others find on each connection of a pool. */
    static void assertClean(HikariDataSource pool, boolean autocommit) throws SQLException {
        assertEquals(0, pool.getHikariPoolMXBean().getActiveConnections());
        List<Connection> all = new ArrayList<>();
        for (int count = pool.getHikariPoolMXBean().getTotalConnections(); count > 0; count--) {
            all.add(pool.getConnection());
        }
        for (Connection one : all) {
            assertEquals(autocommit, one.getAutoCommit());
            assertEquals(0, one.getNetworkTimeout());
            assertEquals(List.of("0|" + (autocommit ? 1 : 0) + "|0"),
                    rows(one, "SELECT @@in_transaction, @@autocommit, @@queue_owner"));
            one.close();
        }
    }

    @Override
    public void close() throws Exception {
        for (AutoCloseable end : ends) {
            end.close();
        }
        // A test that has failed may have a transaction.
        run("SET STATEMENT lock_wait_timeout = 5 FOR DROP DATABASE " + database);
        eye.close();
    }
}
