package io.remora.queue;

import java.math.BigDecimal;
import java.security.SecureRandom;
import java.sql.Connection;
import java.sql.SQLException;
import java.sql.Statement;
import java.time.Duration;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HexFormat;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.sql.DataSource;

/**
 * A table with ENGINE=QUEUE. It can be used by many threads.
 *
 * @param <T> the type of the payloads
 */
public final class JobQueue<T> {
    // A part of a name, and a name with its database or without: as in SQL.
    private static final String PART = "(`(?:[^`]|``)+`|[^`.]+)";
    private static final Pattern NAME = Pattern.compile("(?:" + PART + "\\.)?" + PART);
    private static final Pattern TRANSACTIONAL =
            Pattern.compile("\\btransactional`?\\s*=\\s*'?1", Pattern.CASE_INSENSITIVE);
    private static final DateTimeFormatter TIMESTAMP =
            DateTimeFormatter.ofPattern("uuuu-MM-dd HH:mm:ss.SSSSSS").withZone(ZoneOffset.UTC);
    private static final SecureRandom RANDOM = new SecureRandom();

    final Codec<T> codec;
    final DataSource dataSource;
    private final String database;
    private final String name;
    private final Builder<T> options;
    // What the table itself says, once somebody has looked.
    private volatile boolean isTransactional;

    private JobQueue(Builder<T> options) {
        Matcher found = NAME.matcher(options.name);
        if (!found.matches() || options.name.indexOf('\\') >= 0) {
            throw new IllegalArgumentException("'" + options.name
                    + "' is no name of a table; write db.table, with backticks around odd parts");
        }
        this.database = unquoted(found.group(1));
        this.name = unquoted(found.group(2));
        this.codec = options.codec;
        this.dataSource = options.dataSource;
        this.options = options;
    }

    /**
     * Begins a queue by its name, {@code table} or {@code db.table}, with backticks around a part that has a
     * dot, as in SQL. Nothing asks the server before the queue is used.
     */
    public static <T> Builder<T> builder(String name, Codec<T> codec) {
        return new Builder<>(name, codec);
    }

    /** Begins a queue whose payloads are JSON text, which the program itself writes and reads. */
    public static Builder<String> builder(String name) {
        return builder(name, Codec.text());
    }

    /** The name's first part. Null if the connection's database decides. */
    public String database() {
        return database;
    }

    /** The table's name without its database. */
    public String name() {
        return name;
    }

    /** The name of the table of messages that have failed too often, without its database. */
    public String dead() {
        return name + "_dead";
    }

    /** The full name in backticks, for SQL and for the functions of the queue. */
    public String table() {
        return named(name);
    }

    private String named(String table) {
        return database == null ? Sql.quoted(table) : Sql.quoted(database) + "." + Sql.quoted(table);
    }

    private static String unquoted(String part) {
        if (part == null || part.charAt(0) != '`') {
            return part;
        }
        return part.substring(1, part.length() - 1).replace("``", "`");
    }

    /** Text as a condition has it: in quotes, and what is special there is twice there. */
    public static String literal(String text) {
        return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'";
    }

    /** Makes the tables if they are not there. As all DDL, this commits the connection's transaction. */
    public void create(Connection connection) throws SQLException {
        for (String statement : ddl()) {
            execute(connection, statement);
        }
    }

    /** The statements that {@link #create} runs, for those who keep their DDL elsewhere. */
    public List<String> ddl() {
        List<String> columns = new ArrayList<>(List.of("id CHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL",
                "payload LONGTEXT NOT NULL", "at TIMESTAMP(6) NULL"));
        String settings = "DUE=at KEEP=" + options.keep.toSeconds();
        if (options.hasFifo) {
            columns.add("message_key VARCHAR(190) COLLATE utf8mb4_bin NULL");
            settings += " FIFO=message_key";
        }
        if (options.hasDedupe) {
            columns.add("dedupe_key VARCHAR(190) COLLATE utf8mb4_bin NULL");
            settings += " DEDUPE=dedupe_key DEDUPE_FOR=" + options.dedupeFor.toSeconds();
        }
        if (options.hasPriority) {
            columns.add("priority INT NOT NULL DEFAULT 0");
            settings += " PRIORITY=priority";
        }
        if (!options.isPlain) {
            settings += " TRANSACTIONAL=1";
        }
        if (options.tries == 0) {
            return List.of(creation(table(), columns, settings));
        }
        settings += " TRIES=" + options.tries + " BACKOFF='" + options.backoff + "' DEAD="
                + Sql.plain(named(dead()));
        List<String> more = new ArrayList<>(columns);
        more.addAll(List.of("failed INT NULL", "why TEXT NULL"));
        return List.of(creation(named(dead()), more, "FAILED=failed WHY=why"),
                creation(table(), columns, settings));
    }

    private static String creation(String table, List<String> columns, String settings) {
        return "CREATE TABLE IF NOT EXISTS " + table + " (" + String.join(", ", columns)
                + ") ENGINE=QUEUE CHARSET=utf8mb4 " + settings;
    }

    /** Puts a message that is to be given at once. See {@link #put(Connection, Object, Put)}. */
    public String put(Connection connection, T payload) throws SQLException {
        return put(connection, payload, new Put());
    }

    /**
     * Puts a message into the queue, and gives its id. The message is a part of the connection's transaction:
     * workers see it when that commits, and never if it does not.
     *
     * @throws InTransactionException the queue is plain, so ROLLBACK would not undo the put
     * @throws NotAQueueException there is no such table
     * @throws IllegalArgumentException the codec can't write the payload, or the queue was made without what
     *     an option needs
     */
    public String put(Connection connection, T payload, Put options) throws SQLException {
        return putMany(connection, List.of(new Message<>(payload, options))).get(0);
    }

    /** Puts messages with one statement, all or none of them, and gives their ids. */
    public List<String> putMany(Connection connection, Collection<Message<T>> messages) throws SQLException {
        List<String> ids = new ArrayList<>();
        List<String> rows = new ArrayList<>();
        boolean isOutside = true;
        for (Message<T> message : messages) {
            String id = newId();
            ids.add(id);
            rows.add("(" + Sql.value(id) + "," + Sql.value(encoded(message.payload())) + ","
                    + values(message.options()) + ")");
            isOutside &= message.options().isOutside;
        }
        if (!ids.isEmpty()) {
            if (!isTransactional && !isOutside) {
                check(connection);
            }
            // In UTC no time occurs twice, and none is missing.
            execute(connection, "SET STATEMENT time_zone = '+00:00' FOR INSERT INTO " + table() + " (" + columns()
                    + ") VALUES " + String.join(",", rows));
        }
        return ids;
    }

    private static String newId() {
        byte[] random = new byte[16];
        RANDOM.nextBytes(random);
        return HexFormat.of().formatHex(random);
    }

    private String encoded(T payload) {
        String text;
        try {
            text = codec.encode(payload);
        } catch (Exception error) {
            throw new IllegalArgumentException("the codec can't write the payload: " + error.getMessage(), error);
        }
        if (text == null) {
            throw new IllegalArgumentException("a payload is not null");
        }
        return text;
    }

    private String columns() {
        return "id,payload,at" + (options.hasFifo ? ",message_key" : "") + (options.hasDedupe ? ",dedupe_key" : "")
                + (options.hasPriority ? ",priority" : "");
    }

    private String values(Put put) {
        return due(put) + column("key", options.hasFifo, put.key != null, Sql.value(put.key))
                + column("dedupe", options.hasDedupe, put.dedupe != null, Sql.value(put.dedupe))
                + column("priority", options.hasPriority, put.priority != 0, String.valueOf(put.priority));
    }

    /** What the table has no column for would be lost, and is refused. */
    private String column(String option, boolean isThere, boolean isGiven, String sql) {
        if (isGiven && !isThere) {
            throw new IllegalArgumentException(
                    table() + " has no column for " + option + "; make the JobQueue with the option for it");
        }
        return isThere ? "," + sql : "";
    }

    /** From when on a message is given. The server's clock decides. */
    private static String due(Put put) {
        if (put.at != null && put.delay != null) {
            throw new IllegalArgumentException("either a delay or a time");
        }
        if (put.at != null) {
            return Sql.plain(TIMESTAMP.format(put.at));
        }
        if (put.delay == null || put.delay.isZero()) {
            return "NULL";
        }
        long micros = TimeUnit.MICROSECONDS.convert(Sql.notNegative(put.delay, "a delay"));
        return "NOW(6) + INTERVAL " + micros + " MICROSECOND";
    }

    /** A put that ROLLBACK would not undo is refused. */
    private void check(Connection connection) throws SQLException {
        State found = look(connection);
        if (!isTransactional && (found.inTransaction || !found.autocommit)) {
            throw new InTransactionException(table() + " is not TRANSACTIONAL, so ROLLBACK would not undo this put;"
                    + " outsideTransaction() says that this is meant");
        }
    }

    private static void execute(Connection connection, String sql) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            statement.setEscapeProcessing(false);
            statement.execute(sql);
        }
    }

    /** What a connection is. */
    private record State(boolean inTransaction, boolean autocommit, String charset) {
    }

    /** Asks the server for the state, and notes whether the table takes part in transactions. */
    private State look(Connection connection) throws SQLException {
        String[] found = Sql.first(connection, Sql.state(database, name));
        if (found[2] == null || !found[2].startsWith("QUEUE")) {
            throw new NotAQueueException(table() + " is no table with ENGINE=QUEUE; create() makes one");
        }
        isTransactional = TRANSACTIONAL.matcher(found[2]).find();
        return new State(found[0].equals("1"), found[1].equals("1"), found[3]);
    }

    /** Refuses what could never be leased on a connection. Whether that is in a transaction. */
    boolean checkLease(Connection connection, String where, boolean inTransaction) throws SQLException {
        State found = look(connection);
        if (inTransaction && !isTransactional) {
            throw new QueueException(
                    table() + " is not TRANSACTIONAL: COMMIT can't end its messages; use worker() without one");
        }
        // The server reads arguments of functions in the character set of the connection.
        if (!Sql.isAscii(table() + where) && !found.charset.startsWith("utf8")) {
            throw new QueueException("a name or a condition has letters that need a connection with utf8mb4");
        }
        return found.inTransaction;
    }

    /** Takes a message that is there. See {@link #take(Connection, Take, TransactionHandler)}. */
    public <X extends Exception> boolean take(Connection connection, TransactionHandler<T, X> work)
            throws SQLException, InterruptedException, X {
        return take(connection, new Take(), work);
    }

    /**
     * Takes a message and the caller's changes in one transaction: both are there, or neither. It gives false
     * if no message came. When the work has returned, the message is ended and the transaction committed.
     *
     * <p>An exception of the work rolls back, counts as a failed try, and comes out. An interrupt ends the
     * wait at once, and takes nothing. With a DataSource the lease is extended, on a connection of that.
     *
     * @throws LeaseLostException somebody else has the message meanwhile, and nothing is committed
     * @throws InTransactionException a transaction has begun on the connection: it may not see what was
     *     committed together with the message
     */
    public <X extends Exception> boolean take(Connection connection, Take options, TransactionHandler<T, X> work)
            throws SQLException, InterruptedException, X {
        return new Taking<>(this, connection, options).take(work);
    }

    /**
     * A worker that runs a handler for each message. The handler's return ends the message. An exception is a
     * failed try with its text as the reason; {@link RetryException} is one that is expected.
     */
    public Worker.Builder worker(JobHandler<T> handler) {
        return new Worker.Builder(this, null, jobs -> handler.handle(Job.of(jobs.get(0), codec)));
    }

    /**
     * A worker whose handler is given up to {@code size} jobs at a time. An exception is a failed try of all.
     */
    public Worker.Builder batchWorker(int size, BatchHandler<T> handler) {
        Worker.Builder made = new Worker.Builder(this, null, null);
        made.batch = Sql.positive(size, "a batch");
        made.handling = all -> {
            List<Job<T>> jobs = new ArrayList<>();
            for (Leased of : all) {
                try {
                    jobs.add(Job.of(of, codec));
                } catch (Exception error) {
                    made.log.log(System.Logger.Level.WARNING, "a payload can't be read", error);
                    of.fail(new RetryException(Failure.of(error).reason()));
                }
            }
            if (!jobs.isEmpty()) {
                handler.handle(jobs);
            }
        };
        return made;
    }

    /**
     * A worker whose handler is given a connection. What it changes in InnoDB there and the end of the
     * message are one COMMIT, which the worker does: exactly once.
     */
    public Worker.Builder transactionWorker(TransactionHandler<T, ?> handler) {
        return new Worker.Builder(this,
                (leased, connection) -> handler.handle(Job.of(leased, codec), connection), null);
    }

    /**
     * Makes a queue. The options are those of {@link JobQueue#create}; an existing table keeps its own. Fifo,
     * dedupe and priority say which columns the table has: give them as when it was made.
     *
     * @param <T> the type of the payloads
     */
    public static final class Builder<T> implements Cloneable {
        private final String name;
        private final Codec<T> codec;
        private DataSource dataSource;
        private boolean isPlain;
        private int tries = 5;
        private String backoff = "10,2,3600";
        private boolean hasFifo;
        private boolean hasDedupe;
        private Duration dedupeFor = Duration.ZERO;
        private boolean hasPriority;
        private Duration keep = Duration.ZERO;

        private Builder(String name, Codec<T> codec) {
            this.name = name;
            this.codec = codec;
        }

        /** The queue. */
        public JobQueue<T> build() {
            try {
                @SuppressWarnings("unchecked")
                Builder<T> copy = (Builder<T>) clone();
                return new JobQueue<>(copy);
            } catch (CloneNotSupportedException error) {
                throw new AssertionError(error);
            }
        }

        /**
         * For those who need connections of their own: workers, and {@link JobQueue#take} to extend its
         * lease.
         */
        public Builder<T> dataSource(DataSource dataSource) {
            this.dataSource = dataSource;
            return this;
        }

        /** The table takes no part in transactions. It is faster, and ROLLBACK does not undo a put. */
        public Builder<T> plain() {
            isPlain = true;
            return this;
        }

        /**
         * How often a message is tried before it is moved to the table NAME_dead. By default 5; 0 is no
         * limit.
         */
        public Builder<T> tries(int tries) {
            this.tries = Sql.notNegative(tries, "a number of tries");
            return this;
        }

        /**
         * How long a message waits after each failed try: at first, then so many times longer, and at most,
         * where zero is no limit. By default 10 seconds, twice as long each time, and at most an hour.
         */
        public Builder<T> backoff(Duration first, double factor, Duration most) {
            backoff = decimal(first) + "," + BigDecimal.valueOf(factor).toPlainString() + "," + decimal(most);
            return this;
        }

        private static String decimal(Duration time) {
            return BigDecimal.valueOf(Sql.notNegative(time, "a wait").toMillis(), 3).toPlainString();
        }

        /** Messages may have a {@link Put#key}. */
        public Builder<T> fifo() {
            hasFifo = true;
            return this;
        }

        /** Messages may have a {@link Put#dedupe}. A second one is left out while the first one waits. */
        public Builder<T> dedupe() {
            hasDedupe = true;
            return this;
        }

        /** Messages may have a {@link Put#dedupe}. A second one is left out for so many whole seconds. */
        public Builder<T> dedupeFor(Duration dedupeFor) {
            this.dedupeFor = wholeSeconds(dedupeFor);
            return dedupe();
        }

        /** Messages may have a {@link Put#priority}. */
        public Builder<T> priority() {
            hasPriority = true;
            return this;
        }

        /** For how many whole seconds messages are kept that have ended. By default they are not. */
        public Builder<T> keep(Duration keep) {
            this.keep = wholeSeconds(keep);
            return this;
        }

        private static Duration wholeSeconds(Duration time) {
            if (time.isNegative() || time.getNano() != 0) {
                throw new IllegalArgumentException(time + " is not in whole seconds");
            }
            return time;
        }
    }
}
