package main

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-sql-driver/mysql"
)

// socket is that of a connection. When it is armed it closes itself in place of reading.
type socket struct {
	net.Conn
	armed *atomic.Bool
	came  chan struct{}
}

func (s *socket) Read(into []byte) (int, error) {
	if !s.armed.Load() {
		return s.Conn.Read(into)
	}
	_, err := s.Conn.Read(into[:1])
	close(s.came)
	s.Conn.Close()
	return 0, errors.Join(err, net.ErrClosed)
}

// connection is one of the driver, as programs have them: from a pool.
type connection struct {
	db     *sql.DB
	conn   *sql.Conn
	tx     *sql.Tx
	socket *socket
	id     string
	// Of the last result.
	lastType string
}

func open() (*connection, error) {
	made := &connection{}
	config := mysql.NewConfig()
	config.User, config.DBName, config.Net = "root", database, "unix"
	config.DialFunc = func(ctx context.Context, _, _ string) (net.Conn, error) {
		one, err := new(net.Dialer).DialContext(ctx, "unix", os.Getenv("REMORA_QUEUE_SOCKET"))
		made.socket = &socket{Conn: one, armed: new(atomic.Bool), came: make(chan struct{})}
		return made.socket, err
	}
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return nil, err
	}
	made.db = sql.OpenDB(connector)
	if made.conn, err = made.db.Conn(context.Background()); err != nil {
		return nil, err
	}
	made.id, err = made.query("SELECT CONNECTION_ID()", nil)
	return made, err
}

// on is what statements are run on: within a transaction, that.
func (c *connection) on() interface {
	ExecContext(context.Context, string, ...any) (sql.Result, error)
	QueryContext(context.Context, string, ...any) (*sql.Rows, error)
} {
	if c.tx != nil {
		return c.tx
	}
	return c.conn
}

func (c *connection) exec(query string, values []any) (string, error) {
	result, err := c.on().ExecContext(context.Background(), query, values...)
	if err != nil {
		return "", err
	}
	changed, err := result.RowsAffected()
	return fmt.Sprint(changed), err
}

func (c *connection) query(query string, values []any) (string, error) {
	rows, err := c.on().QueryContext(context.Background(), query, values...)
	if err != nil {
		return "", err
	}
	defer rows.Close()
	types, err := rows.ColumnTypes()
	if err != nil {
		return "", err
	}
	c.lastType = "bytes"
	if name := types[0].DatabaseTypeName(); strings.Contains(name, "TEXT") || strings.Contains(name, "CHAR") {
		c.lastType = "text"
	}
	lines := []string{}
	for rows.Next() {
		found := make([]sql.NullString, len(types))
		into := make([]any, len(types))
		for at := range found {
			into[at] = &found[at]
		}
		if err := rows.Scan(into...); err != nil {
			return "", err
		}
		texts := make([]string, len(types))
		for at, one := range found {
			if texts[at] = "NULL"; one.Valid {
				texts[at] = one.String
			}
		}
		lines = append(lines, strings.Join(texts, "|"))
	}
	return strings.Join(lines, "\n"), rows.Err()
}

func (c *connection) ping() error {
	return c.conn.PingContext(context.Background())
}

func (c *connection) transaction(verb string) error {
	var err error
	switch tx := c.tx; verb {
	case "@begin":
		c.tx, err = c.conn.BeginTx(context.Background(), nil)
	case "@commit":
		c.tx, err = nil, tx.Commit()
	case "@rollback":
		c.tx, err = nil, tx.Rollback()
	}
	return err
}

// close closes the connection, with what it is in the middle of.
func (c *connection) close() {
	_ = c.conn.Raw(func(of any) error { return of.(driver.Conn).Close() })
	if c.tx != nil {
		_ = c.tx.Rollback()
	}
	_ = c.conn.Close()
	_ = c.db.Close()
}

// closeUnread sends a statement, and closes the connection when something has come of its answer.
func (c *connection) closeUnread(query string) {
	c.socket.armed.Store(true)
	_, _ = c.conn.ExecContext(context.Background(), query)
	<-c.socket.came
	c.close()
}

func (r *run) isThere(id, condition string) (bool, error) {
	k, err := r.connection("k")
	if err != nil {
		return false, &mistake{err.Error()}
	}
	count, err := k.query("SELECT COUNT(*) FROM information_schema.processlist WHERE id = "+id+" AND "+condition, nil)
	if err != nil {
		return false, &mistake{err.Error()}
	}
	return count != "0", nil
}

func (r *run) until(what, id, condition string, wanted bool) error {
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		if found, err := r.isThere(id, condition); err != nil || found == wanted {
			return err
		}
		if time.Now().After(end) {
			return &mistake{"not in time: " + what}
		}
	}
}

func (r *run) untilItWaits(on *connection) error {
	return r.until("it waits", on.id, "state LIKE 'Waiting in queue%'", true)
}

// closed forgets a connection, and waits until the server has noticed.
func (r *run) closed(name string, on *connection) error {
	delete(r.connections, name)
	if name == "k" {
		return nil
	}
	return r.until("its connection ends", on.id, "TRUE", false)
}

type result struct {
	got string
	err error
}

func (r *run) killWait(on *connection, query string) (string, error) {
	waiting := make(chan result, 1)
	go func() {
		got, err := on.query(query, nil)
		waiting <- result{got, err}
	}()
	if err := r.untilItWaits(on); err != nil {
		return "", err
	}
	k, err := r.connection("k")
	if err == nil {
		_, err = k.exec("KILL QUERY "+on.id, nil)
	}
	if err != nil {
		return "", &mistake{err.Error()}
	}
	ended := <-waiting
	return ended.got, ended.err
}

// closeWait cancels a statement when it waits, by which this driver closes the connection.
func (r *run) closeWait(name string, on *connection, query string) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	waiting := make(chan error, 1)
	go func() {
		_, err := on.conn.ExecContext(ctx, query)
		waiting <- err
	}()
	if err := r.untilItWaits(on); err != nil {
		return err
	}
	cancel()
	if err := <-waiting; !errors.Is(err, context.Canceled) {
		return &mistake{fmt.Sprint("the wait was not cancelled: ", err)}
	}
	on.close()
	return r.closed(name, on)
}
