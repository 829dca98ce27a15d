package io.remora.queue;

/** The connection is within a transaction, and what was asked for would be no part of it. */
public final class InTransactionException extends QueueException {
    private static final long serialVersionUID = 1;

    InTransactionException(String message) {
        super(message);
    }
}
