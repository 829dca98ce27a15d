package io.remora.queue;

/** The lease has ended, and somebody else may have the message. */
public final class LeaseLostException extends QueueException {
    private static final long serialVersionUID = 1;

    LeaseLostException(String token) {
        super("the lease of " + token + " has ended: somebody else may have its message");
    }
}
