package remoraqueue

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"log/slog"
	"sync"
	"time"
)

// Connection is what a statement is run on: a [sql.Tx], a [sql.Conn], or a [sql.DB].
type Connection interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// Beginner is where a transaction can begin: a [sql.Conn], or a [sql.DB].
type Beginner interface {
	Connection
	BeginTx(ctx context.Context, options *sql.TxOptions) (*sql.Tx, error)
}

// pool is a sql.DB, or a type around one.
type pool interface {
	Beginner
	Conn(ctx context.Context) (*sql.Conn, error)
}

// row is a row of a result, as text.
type row []sql.NullString

// first runs a statement and gives its first row, which is nil if there is none. It has no parameters: those
// would be two more round trips, or a way of quoting that depends on the driver's options.
func first(ctx context.Context, on Connection, query string) (row, error) {
	rows, err := on.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	if !rows.Next() {
		return nil, rows.Err()
	}
	columns, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	found := make(row, len(columns))
	into := make([]any, len(columns))
	for at := range found {
		into[at] = &found[at]
	}
	if err := rows.Scan(into...); err != nil {
		return nil, err
	}
	return found, rows.Close()
}

// discard closes a connection, so that the pool gives it to nobody with what was set there.
// A type around a sql.Conn must have its Raw for that.
func discard(connection any) {
	if of, ok := connection.(interface{ Raw(func(any) error) error }); ok {
		_ = of.Raw(func(any) error { return driver.ErrBadConn })
	}
}

// line is a connection of a worker's own: opened at its first statement, and again after an error. It is used
// by one goroutine.
type line struct {
	db         *sql.DB
	connection *sql.Conn
	id         string
}

func (l *line) open(ctx context.Context) error {
	if l.connection != nil {
		return nil
	}
	connection, err := l.db.Conn(ctx)
	if err != nil {
		return err
	}
	if _, err = connection.ExecContext(ctx, ownSession); err == nil {
		var found row
		if found, err = first(ctx, connection, "SELECT CONNECTION_ID()"); err == nil {
			l.connection, l.id = connection, found[0].String
			return nil
		}
	}
	discard(connection)
	return err
}

func (l *line) run(ctx context.Context, query string) (row, error) {
	if err := l.open(ctx); err != nil {
		return nil, err
	}
	found, err := first(ctx, l.connection, query)
	l.note(err)
	return found, err
}

// note closes the connection after an error that it may not have survived.
func (l *line) note(err error) {
	if err != nil && !isInterrupted(err) {
		l.close()
	}
}

func (l *line) close() {
	if l.connection != nil {
		discard(l.connection)
		l.connection = nil
	}
}

const (
	// Between two KILL QUERY: one that comes before the wait does nothing.
	killEvery = 200 * time.Millisecond
	// After so long without success the connection is closed instead.
	killPatience = 5 * time.Second
	// No answer of the server takes longer, unless the connection is broken.
	answerPatience = 30 * time.Second
)

// wait is a statement that waits in the server.
type wait struct {
	on Connection
	// The number of the connection.
	id string
	// Where KILL QUERY is sent from. Without it, the connection is closed.
	db *sql.DB
	// After so long there will be no answer.
	limit time.Duration
	log   *slog.Logger
}

// run runs the statement until ctx ends. Then KILL QUERY ends it, because nothing is lost by that: a
// connection that is closed while the answer is on its way has leased a message to nobody.
func (w wait) run(ctx context.Context, query string) (row, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if w.db == nil {
		return first(ctx, w.on, query)
	}
	bounded, abort := context.WithTimeout(context.WithoutCancel(ctx), w.limit)
	defer abort()
	ended, endKilling := context.WithCancel(context.WithoutCancel(ctx))
	defer endKilling()
	var killing sync.WaitGroup
	killing.Add(1)
	unwatch := context.AfterFunc(ctx, func() {
		defer killing.Done()
		w.kill(ended, abort)
	})
	found, err := first(bounded, w.on, query)
	endKilling()
	if !unwatch() {
		// A KILL QUERY that is under way must not end the connection's next statement.
		killing.Wait()
	}
	return found, err
}

// kill ends the wait, until it has ended.
func (w wait) kill(ended context.Context, abort context.CancelFunc) {
	patience, cancel := context.WithTimeout(context.WithoutCancel(ended), killPatience)
	defer cancel()
	for {
		if err := w.killOnce(patience); err != nil && ended.Err() == nil && numberOf(err) != unknownThread {
			w.log.Warn("the wait could not be ended, which is tried again", "error", err)
		}
		select {
		case <-ended.Done():
			return
		case <-patience.Done():
			abort()
			return
		case <-time.After(killEvery):
		}
	}
}

// killOnce may get no connection of the pool for as long as this wait has one.
func (w wait) killOnce(patience context.Context) error {
	_, err := w.db.ExecContext(patience, "KILL QUERY "+w.id)
	return err
}
