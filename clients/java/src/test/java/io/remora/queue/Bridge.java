package io.remora.queue;

import java.io.Closeable;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;
import java.util.HashSet;
import java.util.Set;
import java.util.concurrent.locks.ReentrantReadWriteLock;

/** A port that leads to the socket of the server, as drivers reach only ports. It can be shut. */
final class Bridge implements Closeable {
    private static final Bridge SHARED = new Bridge();

    /** What goes through waits for it. */
    final ReentrantReadWriteLock pass = new ReentrantReadWriteLock();
    private final ServerSocket listener;
    // Connections that are open; none while it is shut.
    private final Set<Closeable> open = new HashSet<>();
    private boolean isShut;
    // Whether the next bytes that the server sends close their connection.
    private volatile boolean isArmed;

    Bridge() {
        try {
            listener = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
        } catch (IOException error) {
            throw new IllegalStateException(error);
        }
        Connections.start("bridge", this::listen);
    }

    static Bridge shared() {
        return SHARED;
    }

    int port() {
        return listener.getLocalPort();
    }

    private void listen() {
        try {
            while (true) {
                Socket from = listener.accept();
                from.setTcpNoDelay(true);
                try {
                    SocketChannel to =
                            SocketChannel.open(UnixDomainSocketAddress.of(System.getenv("REMORA_QUEUE_SOCKET")));
                    if (enter(from, to)) {
                        // Not streams of the channel: one that reads keeps the other from writing.
                        copy(from.getInputStream()::read, bytes -> to.write(bytes), false, from, to);
                        copy(bytes -> to.read(ByteBuffer.wrap(bytes)), bytes -> from.getOutputStream()
                                .write(bytes.array(), 0, bytes.limit()), true, from, to);
                    }
                } catch (IOException error) {
                    from.close();
                }
            }
        } catch (IOException error) {
            // It is closed.
        }
    }

    private synchronized boolean enter(Closeable... both) throws IOException {
        for (Closeable one : both) {
            if (isShut) {
                one.close();
            } else {
                open.add(one);
            }
        }
        return !isShut;
    }

    @FunctionalInterface
    private interface From {
        int read(byte[] into) throws IOException;
    }

    @FunctionalInterface
    private interface To {
        void write(ByteBuffer bytes) throws IOException;
    }

    private void copy(From from, To to, boolean isAnswer, Closeable... both) {
        Connections.start("bridge", () -> {
            try {
                byte[] buffer = new byte[1 << 16];
                for (int count = from.read(buffer); count > 0; count = from.read(buffer)) {
                    if (isAnswer && isArmed) {
                        isArmed = false;
                        break;
                    }
                    pass.readLock().lock();
                    try {
                        to.write(ByteBuffer.wrap(buffer, 0, count));
                    } finally {
                        pass.readLock().unlock();
                    }
                }
            } catch (IOException error) {
                // It is closed.
            } finally {
                close(both);
            }
        });
    }

    private synchronized void close(Closeable... both) {
        for (Closeable one : both) {
            try {
                one.close();
            } catch (IOException error) {
                // It is closed.
            }
            open.remove(one);
        }
    }

    /** Ends the connection whose answer comes next, in the middle of it. */
    void arm() {
        isArmed = true;
    }

    synchronized void shut() {
        isShut = true;
        close(open.toArray(new Closeable[0]));
    }

    synchronized void reopen() {
        isShut = false;
    }

    @Override
    public void close() {
        try {
            listener.close();
        } catch (IOException error) {
            // It is closed.
        }
        shut();
    }
}
