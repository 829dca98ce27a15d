package io.remora.queue;

/** There is no such table, or it has another engine. */
public final class NotAQueueException extends QueueException {
    private static final long serialVersionUID = 1;

    NotAQueueException(String message) {
        super(message);
    }
}
