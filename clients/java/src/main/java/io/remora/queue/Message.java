package io.remora.queue;

/**
 * A message of many: see {@link JobQueue#putMany}.
 *
 * @param <T> the type of the payload
 * @param payload what the codec can write
 * @param options when and how it is to be given
 */
public record Message<T>(T payload, Put options) {
    /** A message that is to be given at once. */
    public Message(T payload) {
        this(payload, new Put());
    }
}
