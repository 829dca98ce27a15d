package tests

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"io"
	"strings"

	"github.com/go-sql-driver/mysql"
)

// way is what happens to a statement. `run` runs it, and gives the first value of its result as text.
type way func(query string, run func() (string, error)) error

// through is a pool on whose connections statements with a word in them go through a function. COMMIT and
// ROLLBACK are such.
func (s *scene) through(word string, by way) *sql.DB {
	config, err := mysql.ParseDSN(dsn(s.database, ""))
	s.must(err)
	connector, err := mysql.NewConnector(config)
	s.must(err)
	db := sql.OpenDB(tappedConnector{connector, func(query string, run func() (string, error)) error {
		if strings.Contains(query, word) {
			return by(query, run)
		}
		_, err := run()
		return err
	}})
	s.Cleanup(func() { db.Close() })
	return db
}

type tappedConnector struct {
	driver.Connector
	tap way
}

func (c tappedConnector) Connect(ctx context.Context) (driver.Conn, error) {
	made, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return tappedConn{made.(mysqlConn), c.tap}, nil
}

// mysqlConn is what the driver's connections can do.
type mysqlConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ExecerContext
	driver.QueryerContext
	driver.NamedValueChecker
	driver.SessionResetter
	driver.Validator
}

type tappedConn struct {
	mysqlConn
	tap way
}

func (c tappedConn) QueryContext(ctx context.Context, query string, values []driver.NamedValue) (driver.Rows, error) {
	var rows *keptRows
	err := c.tap(query, func() (string, error) {
		found, err := c.mysqlConn.QueryContext(ctx, query, values)
		if err != nil {
			return "", err
		}
		rows, err = keep(found)
		return rows.first(), err
	})
	if err != nil {
		return nil, err
	}
	return rows, nil
}

func (c tappedConn) ExecContext(ctx context.Context, query string, values []driver.NamedValue) (driver.Result, error) {
	var result driver.Result
	err := c.tap(query, func() (string, error) {
		var err error
		result, err = c.mysqlConn.ExecContext(ctx, query, values)
		return "", err
	})
	return result, err
}

func (c tappedConn) BeginTx(ctx context.Context, options driver.TxOptions) (driver.Tx, error) {
	tx, err := c.mysqlConn.BeginTx(ctx, options)
	return tappedTx{tx, c.tap}, err
}

type tappedTx struct {
	driver.Tx
	tap way
}

func (t tappedTx) Commit() error {
	return t.tap("COMMIT", func() (string, error) { return "", t.Tx.Commit() })
}

func (t tappedTx) Rollback() error {
	return t.tap("ROLLBACK", func() (string, error) { return "", t.Tx.Rollback() })
}

// keptRows are rows that were read to their end.
type keptRows struct {
	columns []string
	rows    [][]driver.Value
}

func keep(from driver.Rows) (*keptRows, error) {
	defer from.Close()
	kept := &keptRows{columns: from.Columns()}
	for {
		values := make([]driver.Value, len(kept.columns))
		if err := from.Next(values); err == io.EOF {
			return kept, nil
		} else if err != nil {
			return kept, err
		}
		for at, value := range values {
			if bytes, ok := value.([]byte); ok {
				values[at] = append([]byte{}, bytes...)
			}
		}
		kept.rows = append(kept.rows, values)
	}
}

func (k *keptRows) first() string {
	if len(k.rows) == 0 {
		return ""
	}
	return fmt.Sprintf("%s", k.rows[0][0])
}

func (k *keptRows) Columns() []string { return k.columns }

func (k *keptRows) Close() error { return nil }

func (k *keptRows) Next(into []driver.Value) error {
	if len(k.rows) == 0 {
		return io.EOF
	}
	copy(into, k.rows[0])
	k.rows = k.rows[1:]
	return nil
}
