package io.remora.queue;

import java.sql.SQLException;
import java.util.Set;
import java.util.regex.Pattern;

/** What the server's numbers of errors mean. Its manual lists them under "Errors and warnings". */
final class Errors {
    /** RELEASE SAVEPOINT of one that is not there. */
    static final int NO_SAVEPOINT = 1305;

    private static final Set<Integer> INTERRUPTED = Set.of(1317, 1969);
    private static final Set<Integer> LASTING = Set.of(1046, 1049, 1064, 1103, 1142, 1143, 1146, 1210, 1305,
            51001, 51002, 51003, 51004, 51005, 51006, 51007);
    // Pools have no number or type for this.
    private static final Pattern CLOSED_POOL = Pattern.compile("(?i)data ?source.* closed");
    // A chain of causes may be a circle.
    private static final int CAUSES_MAX = 50;

    private Errors() {
    }

    /** The server's number of an error, also below those of a framework, and 0 if it has none. */
    static int numberOf(Throwable error) {
        SQLException found = find(error, SQLException.class);
        // MariaDB's driver reads two bytes with a sign.
        return found == null ? 0 : found.getErrorCode() & 0xffff;
    }

    /** Whether KILL QUERY or max_statement_time has ended a wait: the connection can be used on. */
    static boolean isInterrupted(Throwable error) {
        return INTERRUPTED.contains(numberOf(error));
    }

    /**
     * Whether an error will come again at every try: the table, a privilege or an argument is wrong, or the
     * program itself is.
     */
    static boolean isLasting(Throwable error) {
        return !(error instanceof SQLException) || error instanceof QueueException
                || LASTING.contains(numberOf(error))
                || error.getMessage() != null && CLOSED_POOL.matcher(error.getMessage()).find();
    }

    static <E extends Throwable> E find(Throwable error, Class<E> type) {
        int count = 0;
        for (Throwable one = error; one != null && count < CAUSES_MAX; one = one.getCause(), count++) {
            if (type.isInstance(one)) {
                return type.cast(one);
            }
        }
        return null;
    }
}
