package io.remora.queue;

import java.text.MessageFormat;
import java.util.List;
import java.util.ResourceBundle;
import java.util.concurrent.CopyOnWriteArrayList;

/** A log that keeps what it was told. */
final class Book implements System.Logger {
    private final List<String> lines = new CopyOnWriteArrayList<>();

    @Override
    public String getName() {
        return "book";
    }

    @Override
    public boolean isLoggable(Level level) {
        return true;
    }

    @Override
    public void log(Level level, ResourceBundle bundle, String message, Throwable thrown) {
        lines.add(message + " " + thrown);
    }

    @Override
    public void log(Level level, ResourceBundle bundle, String format, Object... values) {
        lines.add(MessageFormat.format(format, values));
    }

    List<String> lines() {
        return lines;
    }

    boolean has(String text) {
        return lines.toString().contains(text);
    }
}
