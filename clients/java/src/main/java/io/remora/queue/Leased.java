package io.remora.queue;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** A message that was leased, whatever the type of its payload. */
final class Leased {
    final Map<String, String> row;
    final String why;
    private String token;
    private int tries;
    // Why this try has failed, by its own word.
    private RetryException failure;
    private boolean isLost;
    // Whether its handler has ended, so that its token is about to be used.
    private boolean isOver;
    // The same message, leased again before it was known how the use of the token went.
    private Leased again;

    Leased(String token, int tries, String why, Map<String, String> row) {
        this.token = token;
        this.tries = tries;
        this.why = why;
        this.row = row;
    }

    /** The messages in what queue_lease_json() returned. */
    static List<Leased> allOf(String[] answer) {
        List<Leased> made = new ArrayList<>();
        for (Object one : (List<?>) Json.read(answer[0])) {
            Map<?, ?> message = (Map<?, ?>) one;
            // Text, because numbers of rows are asked for as text.
            @SuppressWarnings("unchecked")
            Map<String, String> row = (Map<String, String>) message.get("row");
            int tries = Integer.parseInt((String) message.get("try"));
            made.add(new Leased((String) message.get("token"), tries, (String) message.get("why"), row));
        }
        return made;
    }

    /** The tokens in what queue_stale() returned. A name in backticks may have commas of its own. */
    static Set<String> staleIn(String[] answer) {
        Set<String> stale = new HashSet<>();
        if (answer[1] != null) {
            boolean isQuoted = false;
            int from = 0;
            for (int at = 0; at <= answer[1].length(); at++) {
                if (at == answer[1].length() || answer[1].charAt(at) == ',' && !isQuoted) {
                    stale.add(answer[1].substring(from, at));
                    from = at + 1;
                } else if (answer[1].charAt(at) == '`') {
                    isQuoted = !isQuoted;
                }
            }
        }
        return stale;
    }

    /** By what a worker knows the message again. */
    String key() {
        String id = row.get("id");
        return id != null ? id : token();
    }

    synchronized String token() {
        return token;
    }

    synchronized int tries() {
        return tries;
    }

    synchronized void fail(RetryException why) {
        failure = why;
    }

    synchronized RetryException failure() {
        return failure;
    }

    /** From now on its token does not change. */
    synchronized void over() {
        isOver = true;
    }

    /** Somebody else may have the message. */
    synchronized void lose() {
        isLost = true;
    }

    synchronized boolean isLost() {
        return isLost;
    }

    /**
     * The message was leased again while its job is here. One that runs continues with the new lease: true.
     */
    synchronized boolean comesAgain(Leased other) {
        if (isOver) {
            again = other;
            return false;
        }
        token = other.token();
        tries = other.tries();
        isLost = false;
        return true;
    }

    /** The message that was leased again, and null if it was not. */
    synchronized Leased again() {
        return again;
    }
}
