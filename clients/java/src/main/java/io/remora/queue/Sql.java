package io.remora.queue;

import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.time.Duration;
import java.util.Collection;
import java.util.HexFormat;

/**
 * Statements, and text in them. They have no parameters: how a driver writes these depends on its options.
 */
final class Sql {
    static final Duration LEASE = Duration.ofSeconds(30);

    /** No answer of the server takes longer, unless the connection is broken. */
    static final Duration ANSWER = Duration.ofSeconds(30);

    /** More tokens than this would make a statement that nobody can read in a log. */
    static final int TOKENS_AT_ONCE = 200;

    /**
     * A savepoint is gone when its transaction has ended, as a deadlock ends it. {@code @@in_transaction}
     * would say less: without autocommit the next statement begins another transaction. As text, because one
     * driver's releaseSavepoint does nothing.
     */
    static final String MARK = "SAVEPOINT remora_queue_job";
    static final String CHECK_MARK = "RELEASE SAVEPOINT remora_queue_job";

    // The queue keeps a reason of at most 1024 bytes.
    private static final int REASON_MAX = 1000;

    private Sql() {
    }

    /** Runs a statement, and gives the first row of its result as text. Null if there is none. */
    static String[] first(Connection on, String sql) throws SQLException {
        try (Statement statement = on.createStatement()) {
            return first(statement, sql);
        }
    }

    static String[] first(Statement statement, String sql) throws SQLException {
        // A brace in a name or in a condition is no escape of JDBC.
        statement.setEscapeProcessing(false);
        // Not executeQuery: a driver may refuse SET STATEMENT ... FOR SELECT there.
        if (!statement.execute(sql)) {
            return null;
        }
        try (ResultSet rows = statement.getResultSet()) {
            if (!rows.next()) {
                return null;
            }
            String[] row = new String[rows.getMetaData().getColumnCount()];
            for (int at = 0; at < row.length; at++) {
                row[at] = rows.getString(at + 1);
            }
            return row;
        }
    }

    static Duration positive(Duration given, String what) {
        if (given.toMillis() <= 0) {
            throw new IllegalArgumentException(what + " is at least a millisecond: " + given);
        }
        return given;
    }

    static int positive(int given, String what) {
        if (given <= 0) {
            throw new IllegalArgumentException(what + " is at least 1: " + given);
        }
        return given;
    }

    static int notNegative(int given, String what) {
        if (given < 0) {
            throw new IllegalArgumentException(what + " is not negative: " + given);
        }
        return given;
    }

    static Duration notNegative(Duration given, String what) {
        if (given.isNegative()) {
            throw new IllegalArgumentException(what + " is not negative: " + given);
        }
        return given;
    }

    static Duration max(Duration one, Duration other) {
        return one.compareTo(other) > 0 ? one : other;
    }

    /** A name in backticks, as SQL and the functions of the queue want it. */
    static String quoted(String name) {
        return '`' + name.replace("`", "``") + '`';
    }

    static boolean isAscii(String text) {
        return text.chars().allMatch(letter -> letter < 0x7f);
    }

    /**
     * Text as an SQL expression, or NULL. It means the same in every sql_mode and character set: what is not
     * plain is hex.
     */
    static String value(String text) {
        if (text == null) {
            return "NULL";
        }
        if (!isAscii(text) || text.indexOf('\\') >= 0 || text.indexOf('\0') >= 0) {
            return "_utf8mb4 x'" + HexFormat.of().formatHex(text.getBytes(StandardCharsets.UTF_8)) + "'";
        }
        return plain(text);
    }

    /** Text without a backslash as SQL text. */
    static String plain(String text) {
        return "'" + text.replace("'", "''") + "'";
    }

    /** Text in ASCII, as JSON has it: a connection with another character set changes nothing. */
    static String escaped(String text) {
        StringBuilder made = new StringBuilder();
        for (char letter : text.toCharArray()) {
            made.append(letter < 0x7f ? String.valueOf(letter) : String.format("\\u%04x", (int) letter));
        }
        return made.toString();
    }

    /** A time as SQL. */
    static String seconds(Duration time) {
        return "'" + BigDecimal.valueOf(time.toMillis(), 3) + "'";
    }

    /** Asks for rows. Their numbers are text, because others would be too large. */
    static String lease(String table, String where, Duration lease, int rows, Duration wait) {
        String argument = where == null ? table : table + ":" + where;
        return "SET STATEMENT queue_json_strings = ON FOR SELECT queue_lease_json(" + seconds(lease) + ", '" + rows
                + "', " + value(argument) + ", " + seconds(wait) + ")";
    }

    // Each of these gives how many tokens were valid, and the others.

    static String ack(Collection<String> tokens) {
        return "SELECT queue_ack(" + joined(tokens) + "), queue_stale()";
    }

    static String extend(Collection<String> tokens, Duration lease) {
        return "SELECT queue_extend(" + joined(tokens) + ", " + seconds(lease) + "), queue_stale()";
    }

    static String release(Collection<String> tokens) {
        return "SELECT queue_release(" + joined(tokens) + "), queue_stale()";
    }

    static String nack(Failure failure, Collection<String> tokens) {
        String reason = escaped(failure.reason());
        reason = reason.substring(0, Math.min(reason.length(), REASON_MAX));
        return "SELECT queue_nack(" + joined(tokens) + ", " + failure.delay() + ", " + value(reason)
                + "), queue_stale()";
    }

    private static String joined(Collection<String> tokens) {
        return value(String.join(",", tokens));
    }

    /** Asks whether there is a transaction, for autocommit, what the table is, and for the character set. */
    static String state(String database, String table) {
        return "SELECT @@in_transaction, @@autocommit, (SELECT CONCAT(engine, ' ', create_options)"
                + " FROM information_schema.tables WHERE table_schema = COALESCE(" + value(database)
                + ", DATABASE()) AND table_name = " + value(table) + "), @@character_set_connection";
    }
}
