package io.remora.queue;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.sql.Types;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Runs clients/conformance/steps.tsv through the driver that the property {@code driver} names: Conformance
 * FILE
 *
 * <p>The server is at the socket that REMORA_QUEUE_SOCKET names. With REMORA_QUEUE_RESTARTS=1 whoever started
 * this restarts the server: it is asked with a line on standard output, "stop" or "kill", and answers with a
 * line.
 */
final class Conformance {
    private static final String DATABASE = "java_conformance_" + Scene.DRIVER;
    private static final Pattern TOKEN = Pattern.compile("\\$([a-z])");
    private static final Pattern TIMES = Pattern.compile("\\{(.)\\*(\\d+)\\}");
    private static final Pattern LETTER = Pattern.compile("\\{u\\+([0-9a-f]+)\\}");
    private static final Pattern STEP = Pattern.compile("(?s)(@\\w+)? ?(.*)");
    private static final Pattern ANSWER = Pattern.compile("\"token\":\"([^\"]+)\"");

    /** A connection of the driver, with what leads to the server. */
    private static final class Line {
        final Bridge bridge = new Bridge();
        final Connection connection;
        final String id;

        Line() throws SQLException {
            connection = DriverManager.getConnection(Scene.url(bridge.port(), DATABASE, ""));
            id = Scene.rows(connection, "SELECT CONNECTION_ID()").get(0);
        }

        void close() {
            Connections.quietly(connection::close);
            bridge.close();
        }
    }

    /** A step that nobody restarts the server for. */
    private static final class LeftOut extends Exception {
        private static final long serialVersionUID = 1;
    }

    private final Map<String, Line> lines = new HashMap<>();
    private final Map<String, String> tokens = new HashMap<>();
    private final BufferedReader answers = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    private String lastType;

    private Conformance() {
    }

    public static void main(String[] arguments) throws Exception {
        try (Connection server = DriverManager.getConnection(Scene.url("", ""))) {
            Scene.execute(server, "DROP DATABASE IF EXISTS " + DATABASE);
            Scene.execute(server, "CREATE DATABASE " + DATABASE + " CHARACTER SET utf8mb4");
        }
        Conformance all = new Conformance();
        int done = 0;
        int number = 0;
        for (String line : Files.readAllLines(Path.of(arguments[0]))) {
            number++;
            if (line.isEmpty() || line.startsWith("#")) {
                continue;
            }
            try {
                all.step(line.split("\t"));
                done++;
            } catch (LeftOut nobody) {
                System.err.println("left out from line " + number + " on: nobody restarts the server");
                break;
            } catch (Exception | AssertionError error) {
                System.err.println("steps.tsv:" + number);
                error.printStackTrace();
                System.exit(1);
            }
        }
        System.err.println(Scene.DRIVER + ": " + done + " steps");
        System.exit(0);
    }

    private Line line(String name) throws SQLException {
        if (!lines.containsKey(name)) {
            lines.put(name, new Line());
        }
        return lines.get(name);
    }

    /** A field with its tokens, its many letters and its letters by number. */
    private String text(String field) {
        String made = TOKEN.matcher(field).replaceAll(found ->
                Matcher.quoteReplacement(tokens.getOrDefault(found.group(1), found.group())));
        made = TIMES.matcher(made).replaceAll(found -> found.group(1).repeat(Integer.parseInt(found.group(2))));
        return LETTER.matcher(made).replaceAll(found -> Character.toString(Integer.parseInt(found.group(1), 16)));
    }

    private void step(String[] fields) throws Exception {
        Matcher found = STEP.matcher(fields[1]);
        found.matches();
        String verb = found.group(1) == null ? "" : found.group(1);
        if (verb.equals("@stop") || verb.equals("@kill")) {
            restart(verb.substring(1));
            return;
        }
        String query = text(found.group(2));
        // What a regular expression says of a token is no token.
        String expected = fields[2].startsWith("~") ? fields[2] : text(fields[2]);
        List<String> more = Arrays.asList(fields).subList(3, fields.length);
        List<String[]> rows = new ArrayList<>();
        for (String one : more) {
            if (one.startsWith("A")) {
                rows.add(text(one.substring(1)).split("\\|"));
            }
        }
        String got = result(fields[0], verb, query, rows);
        long end = System.nanoTime() + Scene.PATIENCE.toNanos();
        while (verb.equals("@until") && !fits(got, expected) && System.nanoTime() < end) {
            Thread.sleep(20);
            got = result(fields[0], verb, query, rows);
        }
        if (!fits(got, expected)) {
            throw new AssertionError(String.format("%s %.150s\n  wanted %.150s\n  got    %.150s", fields[0], fields[1],
                    expected, got));
        }
        for (String one : more) {
            checkMore(fields[0], one, got);
        }
    }

    private void restart(String how) throws IOException, LeftOut {
        if (!"1".equals(System.getenv("REMORA_QUEUE_RESTARTS"))) {
            throw new LeftOut();
        }
        System.out.println(how);
        System.out.flush();
        if (answers.readLine() == null) {
            throw new IOException("no answer to " + how);
        }
        lines.values().forEach(Line::close);
        lines.clear();
    }

    private void checkMore(String name, String one, String got) throws SQLException {
        if (one.startsWith("W")) {
            String warnings = "\n" + String.join("\n", Scene.rows(line(name).connection, "SHOW WARNINGS")) + "\n";
            if (!warnings.contains("|" + one.substring(1) + "|")) {
                throw new AssertionError("wanted warning " + one + ", got" + warnings);
            }
        } else if (one.startsWith("$")) {
            String[] names = one.replace("$", "").split(",");
            List<String> found = ANSWER.matcher(got).results().map(token -> token.group(1)).toList();
            if (found.size() != names.length) {
                throw new AssertionError("wanted " + one + ", got " + found);
            }
            for (int at = 0; at < names.length; at++) {
                tokens.put(names[at], found.get(at));
            }
        }
    }

    /** What a step gives, as text, also an error of the server or of the connection. */
    private String result(String name, String verb, String query, List<String[]> rows) throws Exception {
        Line on = line(name);
        try {
            return run(name, on, verb, query, rows);
        } catch (SQLException error) {
            // After an error of the connection itself there is none.
            if (!on.connection.isValid(60)) {
                on.close();
                lines.remove(name);
            }
            return "!" + Errors.numberOf(error);
        }
    }

    private String run(String name, Line on, String verb, String query, List<String[]> rows) throws Exception {
        switch (verb) {
            case "@type":
                return lastType;
            case "@killwait":
                return waiting(on, query, () -> Scene.execute(line("k").connection, "KILL QUERY " + on.id));
            case "@closewait":
                try {
                    waiting(on, query, () -> on.connection.abort(Runnable::run));
                } catch (SQLException error) {
                    // It is closed.
                }
                return closed(name, on);
            case "@closeunread":
                on.bridge.arm();
                Connections.quietly(() -> Scene.rows(on.connection, query));
                return closed(name, on);
            case "@close", "@reset":
                // JDBC has no call that resets a connection.
                return closed(name, on);
            case "@begin":
                on.connection.setAutoCommit(false);
                return "";
            case "@commit", "@rollback":
                if (verb.equals("@commit")) {
                    on.connection.commit();
                } else {
                    on.connection.rollback();
                }
                on.connection.setAutoCommit(true);
                return "";
            case "@many":
                return many(on.connection, query.replace("%s", "?"), rows);
            default:
                return statement(on.connection, query, rows.isEmpty() ? null : rows.get(0));
        }
    }

    /** JDBC's batches may be an INSERT for each row. So the statement has them all. */
    private static String many(Connection on, String query, List<String[]> rows) throws SQLException {
        String places = query.substring(query.lastIndexOf('('));
        String all = query + ("," + places).repeat(rows.size() - 1);
        try (PreparedStatement statement = on.prepareStatement(all)) {
            int at = 0;
            for (String[] row : rows) {
                for (String value : row) {
                    statement.setString(++at, value);
                }
            }
            return String.valueOf(statement.executeUpdate());
        }
    }

    private String statement(Connection on, String query, String[] values) throws SQLException {
        if (values == null) {
            try (Statement statement = on.createStatement()) {
                return statement.execute(query) ? read(statement) : String.valueOf(statement.getUpdateCount());
            }
        }
        try (PreparedStatement statement = on.prepareStatement(query)) {
            for (int at = 0; at < values.length; at++) {
                statement.setString(at + 1, values[at]);
            }
            return statement.execute() ? read(statement) : String.valueOf(statement.getUpdateCount());
        }
    }

    private String read(Statement statement) throws SQLException {
        List<String> all = new ArrayList<>();
        try (ResultSet rows = statement.getResultSet()) {
            int type = rows.getMetaData().getColumnType(1);
            boolean isText = type == Types.VARCHAR || type == Types.LONGVARCHAR || type == Types.CHAR;
            lastType = isText ? "text" : "bytes";
            while (rows.next()) {
                List<String> texts = new ArrayList<>();
                for (int at = 1; at <= rows.getMetaData().getColumnCount(); at++) {
                    String text = rows.getString(at);
                    texts.add(text == null ? "NULL" : text);
                }
                all.add(String.join("|", texts));
            }
        }
        return String.join("\n", all);
    }

    /** Runs a statement, and does something when it waits. */
    private String waiting(Line on, String query, Scene.Step step) throws Exception {
        String[] got = new String[1];
        Scene.Beside beside = new Scene.Beside(() -> got[0] = statement(on.connection, query, null));
        until(on, "state LIKE 'Waiting in queue%'", true);
        step.run();
        Throwable error = beside.end();
        if (error != null) {
            throw (Exception) error;
        }
        return got[0];
    }

    private void until(Line on, String condition, boolean isWanted) throws Exception {
        String query = "SELECT COUNT(*) > 0 FROM information_schema.processlist WHERE id = " + on.id + " AND " + condition;
        long end = System.nanoTime() + Scene.PATIENCE.toNanos();
        while (Scene.rows(line("k").connection, query).get(0).equals("1") != isWanted) {
            if (System.nanoTime() > end) {
                throw new AssertionError("not in time: " + condition);
            }
            Thread.sleep(20);
        }
    }

    /** Closes a connection, and waits until the server has noticed. */
    private String closed(String name, Line on) throws Exception {
        lines.remove(name);
        on.close();
        if (!name.equals("k")) {
            until(on, "TRUE", false);
        }
        return "";
    }

    private static boolean fits(String got, String wanted) {
        if (wanted.equals("ok")) {
            return !got.startsWith("!");
        }
        if (wanted.equals("!")) {
            return got.startsWith("!");
        }
        if (wanted.startsWith("~")) {
            return Pattern.compile(wanted.substring(1), Pattern.DOTALL).matcher(got).find();
        }
        return got.equals(wanted);
    }
}
