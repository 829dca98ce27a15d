package io.remora.queue;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.core.json.JsonWriteFeature;
import com.fasterxml.jackson.databind.JavaType;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.ObjectReader;
import com.fasterxml.jackson.databind.ObjectWriter;

/**
 * Payloads as JSON, by Jackson, which the program must have.
 *
 * @param <T> the type of the payload
 */
public final class JacksonCodec<T> implements Codec<T> {
    private final ObjectReader reader;
    private final ObjectWriter writer;

    private JacksonCodec(ObjectMapper mapper, JavaType type) {
        reader = mapper.readerFor(type);
        // In ASCII, whatever the character set of the connection is.
        writer = mapper.writerFor(type).with(JsonWriteFeature.ESCAPE_NON_ASCII);
    }

    /** A codec for a class, with a mapper that has Jackson's defaults. */
    public static <T> JacksonCodec<T> of(Class<T> type) {
        return of(new ObjectMapper(), type);
    }

    /** A codec for a class. */
    public static <T> JacksonCodec<T> of(ObjectMapper mapper, Class<T> type) {
        return new JacksonCodec<>(mapper, mapper.constructType(type));
    }

    /** A codec for a type with parameters: {@code new TypeReference<List<Mail>>() {}}. */
    public static <T> JacksonCodec<T> of(ObjectMapper mapper, TypeReference<T> type) {
        return new JacksonCodec<>(mapper, mapper.constructType(type));
    }

    @Override
    public String encode(T payload) throws JsonProcessingException {
        return writer.writeValueAsString(payload);
    }

    @Override
    public T decode(String text) throws JsonProcessingException {
        return text == null ? null : reader.readValue(text);
    }
}
