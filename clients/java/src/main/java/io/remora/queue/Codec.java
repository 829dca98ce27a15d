package io.remora.queue;

import java.util.Base64;

/**
 * How a payload becomes the text in the column {@code payload}, and is read again. Text that is JSON can be
 * read by clients in other languages.
 *
 * @param <T> the type of the payload
 */
public interface Codec<T> {
    /** The payload as text. An exception comes out of {@code put} as an {@link IllegalArgumentException}. */
    String encode(T payload) throws Exception;

    /**
     * The payload of a text, which is null if the table has no column {@code payload} or it is NULL. An
     * exception is a failed try.
     */
    T decode(String text) throws Exception;

    /** The text itself: JSON that the program writes and reads with a library of its own. */
    static Codec<String> text() {
        return new Codec<>() {
            @Override
            public String encode(String payload) {
                return payload;
            }

            @Override
            public String decode(String text) {
                return text;
            }
        };
    }

    /** Bytes, as a JSON string with base64. */
    static Codec<byte[]> bytes() {
        return new Codec<>() {
            @Override
            public String encode(byte[] payload) {
                return '"' + Base64.getEncoder().encodeToString(payload) + '"';
            }

            @Override
            public byte[] decode(String text) {
                return text == null ? null : Base64.getDecoder().decode((String) Json.read(text));
            }
        };
    }
}
