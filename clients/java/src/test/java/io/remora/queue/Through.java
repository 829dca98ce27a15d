package io.remora.queue;

import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.sql.Connection;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.SQLException;
import java.sql.Statement;
import javax.sql.DataSource;

/** A DataSource on whose connections statements with a word in them go through a function. */
final class Through {
    /** What happens to a statement. */
    @FunctionalInterface
    interface Way {
        void tap(String sql, Run run) throws SQLException;
    }

    /** Runs it, and gives the first value of its result. */
    @FunctionalInterface
    interface Run {
        String run() throws SQLException;
    }

    private Through() {
    }

    static DataSource of(DataSource from, String word, Way way) {
        return proxy(DataSource.class, (self, method, values) -> {
            Object made = call(from, method, values);
            return made instanceof Connection on ? of(on, word, way) : made;
        });
    }

    static Connection of(Connection from, String word, Way way) {
        return proxy(Connection.class, (self, method, values) -> {
            if (method.getName().equals("setAutoCommit")) {
                String sql = "SET autocommit = " + ((Boolean) values[0] ? 1 : 0);
                if (sql.contains(word)) {
                    way.tap(sql, () -> {
                        from.setAutoCommit((Boolean) values[0]);
                        return "";
                    });
                    return null;
                }
            }
            Object made = call(from, method, values);
            return made instanceof Statement statement ? of(statement, word, way) : made;
        });
    }

    /** A connection whose statements have another text in place of one. */
    static Connection of(Connection from, String text, String other) {
        return proxy(Connection.class, (self, method, values) -> {
            Object made = call(from, method, values);
            return made instanceof Statement statement ? proxy(Statement.class, (of, run, given) -> {
                if (run.getName().equals("execute")) {
                    given[0] = ((String) given[0]).replace(text, other);
                }
                return call(statement, run, given);
            }) : made;
        });
    }

    private static Statement of(Statement from, String word, Way way) {
        String[][] kept = new String[1][];
        return proxy(Statement.class, (self, method, values) -> {
            if (method.getName().equals("execute") && ((String) values[0]).contains(word)) {
                way.tap((String) values[0], () -> {
                    kept[0] = Sql.first(from, (String) values[0]);
                    return kept[0] == null ? "" : kept[0][0];
                });
                return kept[0] != null;
            }
            if (method.getName().equals("getResultSet") && kept[0] != null) {
                return rows(kept[0]);
            }
            return call(from, method, values);
        });
    }

    /** A result with one row. */
    static ResultSet rows(String... row) {
        ResultSetMetaData meta = proxy(ResultSetMetaData.class, (self, method, values) -> row.length);
        boolean[] isRead = new boolean[1];
        return proxy(ResultSet.class, (self, method, values) -> switch (method.getName()) {
            case "next" -> {
                boolean isThere = !isRead[0];
                isRead[0] = true;
                yield isThere;
            }
            case "getString" -> row[(Integer) values[0] - 1];
            case "getMetaData" -> meta;
            default -> null;
        });
    }

    static <T> T proxy(Class<T> type, InvocationHandler handler) {
        return type.cast(Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[] {type}, handler));
    }

    static Object call(Object on, Method method, Object... values) throws Throwable {
        try {
            return method.invoke(on, values);
        } catch (InvocationTargetException error) {
            throw error.getCause();
        }
    }
}
