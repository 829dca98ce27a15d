package io.remora.queue;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Reads the JSON that the server writes: a list is a List, an object a Map, a string and a number a String.
 */
final class Json {
    private final String text;
    private int at;

    private Json(String text) {
        this.text = text;
    }

    static Object read(String text) {
        Json json = new Json(text);
        Object value = json.value();
        json.space();
        if (json.at < text.length()) {
            throw json.wrong();
        }
        return value;
    }

    private Object value() {
        return switch (peek()) {
            case '[' -> list();
            case '{' -> object();
            case '"' -> string();
            default -> word();
        };
    }

    private List<Object> list() {
        List<Object> made = new ArrayList<>();
        at++;
        for (boolean isFirst = true; !ends(']', isFirst); isFirst = false) {
            made.add(value());
        }
        return made;
    }

    private Map<String, Object> object() {
        Map<String, Object> made = new LinkedHashMap<>();
        at++;
        for (boolean isFirst = true; !ends('}', isFirst); isFirst = false) {
            expect('"');
            at--;
            String name = string();
            expect(':');
            made.put(name, value());
        }
        return made;
    }

    /** Whether a list or an object ends here. Otherwise there is another member. */
    private boolean ends(char end, boolean isFirst) {
        if (peek() == end) {
            at++;
            return true;
        }
        if (!isFirst) {
            expect(',');
        }
        return false;
    }

    private String string() {
        StringBuilder made = new StringBuilder();
        for (at++; at < text.length(); at++) {
            char letter = text.charAt(at);
            if (letter == '"') {
                at++;
                return made.toString();
            }
            made.append(letter == '\\' ? escaped() : letter);
        }
        throw wrong();
    }

    private char escaped() {
        at++;
        char letter = peekHere();
        switch (letter) {
            case 'b':
                return '\b';
            case 'f':
                return '\f';
            case 'n':
                return '\n';
            case 'r':
                return '\r';
            case 't':
                return '\t';
            case 'u':
                if (at + 4 >= text.length()) {
                    throw wrong();
                }
                at += 4;
                return (char) Integer.parseInt(text.substring(at - 3, at + 1), 16);
            default:
                return letter;
        }
    }

    /** A number as its text, or null. */
    private String word() {
        int from = at;
        while (at < text.length() && ",]} \n\r\t".indexOf(text.charAt(at)) < 0) {
            at++;
        }
        String word = text.substring(from, at);
        if (word.isEmpty()) {
            throw wrong();
        }
        return word.equals("null") ? null : word;
    }

    private void expect(char letter) {
        if (peek() != letter) {
            throw wrong();
        }
        at++;
    }

    private char peek() {
        space();
        return peekHere();
    }

    private char peekHere() {
        if (at >= text.length()) {
            throw wrong();
        }
        return text.charAt(at);
    }

    private void space() {
        while (at < text.length() && " \n\r\t".indexOf(text.charAt(at)) >= 0) {
            at++;
        }
    }

    private IllegalArgumentException wrong() {
        return new IllegalArgumentException("this is no JSON at " + at + ": " + text);
    }
}
