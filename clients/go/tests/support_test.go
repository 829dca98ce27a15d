// Package tests has the tests of remoraqueue that need a driver and a server: that which REMORA_QUEUE_SOCKET
// names. They are a module of their own, so that the package itself asks for no version of a driver.
package tests

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"remoraqueue"
)

// Longer than anything takes that works. What does not work would take for ever.
var patience = 60 * time.Second

func TestMain(m *testing.M) {
	if os.Getenv("REMORA_QUEUE_SOCKET") == "" {
		fmt.Fprintln(os.Stderr, "REMORA_QUEUE_SOCKET must name the socket of a server")
		os.Exit(1)
	}
	if given, err := time.ParseDuration(os.Getenv("REMORA_QUEUE_PATIENCE") + "s"); err == nil {
		patience = given
	}
	// Tests end connections, and the driver would say so each time.
	_ = mysql.SetLogger(&mysql.NopLogger{})
	code := m.Run()
	os.RemoveAll(built)
	os.Exit(code)
}

// dsn is the address of the server and a database, with parameters.
func dsn(database, parameters string) string {
	return fmt.Sprintf("root@unix(%s)/%s?%s", os.Getenv("REMORA_QUEUE_SOCKET"), database, parameters)
}

// scene is a test with a database of its own.
type scene struct {
	*testing.T
	database string
	db       *sql.DB
}

func begin(t *testing.T, database string) *scene {
	t.Helper()
	s := &scene{T: t, database: "go_" + database}
	server := s.open("", "")
	_, err := server.Exec("DROP DATABASE IF EXISTS " + s.database)
	s.must(err)
	_, err = server.Exec("CREATE DATABASE " + s.database)
	s.must(err)
	server.Close()
	s.db = s.open(s.database, "")
	t.Cleanup(func() {
		// A test that has failed may have a transaction.
		_, _ = s.db.Exec("SET STATEMENT lock_wait_timeout = 1 FOR DROP DATABASE " + s.database)
	})
	return s
}

func (s *scene) open(database, parameters string) *sql.DB {
	s.Helper()
	db, err := sql.Open("mysql", dsn(database, parameters))
	s.must(err)
	s.Cleanup(func() { db.Close() })
	return db
}

// ctx ends when a test has taken too long.
func (s *scene) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	s.Cleanup(cancel)
	return ctx
}

func (s *scene) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *scene) equal(got, wanted any) {
	s.Helper()
	if g, w := fmt.Sprintf("%#v", got), fmt.Sprintf("%#v", wanted); g != w {
		s.Fatalf("got %s, wanted %s", g, w)
	}
}

func (s *scene) run(query string) {
	s.Helper()
	_, err := s.db.Exec(query)
	s.must(err)
}

// kill ends a connection, if it is still there.
func (s *scene) kill(id string) {
	s.Helper()
	_, err := s.db.Exec("KILL CONNECTION " + id)
	var refused *mysql.MySQLError
	if !errors.As(err, &refused) || refused.Number != 1094 {
		s.must(err)
	}
}

// rows of a statement, each as text with a bar between its columns.
func (s *scene) rows(query string) []string {
	s.Helper()
	rows, err := s.db.Query(query)
	s.must(err)
	defer rows.Close()
	columns, err := rows.Columns()
	s.must(err)
	all := []string{}
	for rows.Next() {
		values := make([]sql.NullString, len(columns))
		into := make([]any, len(columns))
		for at := range values {
			values[at].String = "NULL"
			into[at] = &values[at]
		}
		s.must(rows.Scan(into...))
		texts := make([]string, len(columns))
		for at, value := range values {
			if texts[at] = "NULL"; value.Valid {
				texts[at] = value.String
			}
		}
		all = append(all, strings.Join(texts, "|"))
	}
	s.must(rows.Err())
	return all
}

func (s *scene) value(query string) string {
	s.Helper()
	return s.rows(query)[0]
}

func (s *scene) count(table string) int {
	s.Helper()
	var count int
	s.must(s.db.QueryRow("SELECT COUNT(*) FROM " + table).Scan(&count))
	return count
}

// number is the value of a statement, and 0 for NULL.
func (s *scene) number(query string) float64 {
	s.Helper()
	var number sql.NullFloat64
	s.must(s.db.QueryRow(query).Scan(&number))
	return number.Float64
}

// leasedUntil is when the last lease of a table ends, in seconds; 0 when there is none.
func (s *scene) leasedUntil(table string) float64 {
	s.Helper()
	return s.number(fmt.Sprintf("SELECT CAST(MAX(UNIX_TIMESTAMP(until)) AS DOUBLE) FROM"+
		" information_schema.queue_owned WHERE table_schema = '%s' AND table_name = '%s' AND connection_id = 0",
		s.database, table))
}

// untilExtended waits until the lease of a table ends later by so many seconds.
func (s *scene) untilExtended(table string, by float64) {
	first := s.leasedUntil(table)
	s.until("it is extended", func() bool { return s.leasedUntil(table) > first+by })
}

// failures are how many tries each owned row of a table has failed.
func (s *scene) failures(table string) []string {
	s.Helper()
	return s.rows(fmt.Sprintf("SELECT failed FROM information_schema.queue_owned WHERE table_schema = '%s'"+
		" AND table_name = '%s'", s.database, table))
}

// waiting are the connections that wait for a message.
func (s *scene) waiting() []string {
	s.Helper()
	return s.rows(fmt.Sprintf("SELECT id FROM information_schema.processlist WHERE db = '%s'"+
		" AND state = 'Waiting in queue_lease'", s.database))
}

func (s *scene) untilWaiting(count int) {
	s.Helper()
	s.until(fmt.Sprintf("%d connections wait", count), func() bool { return len(s.waiting()) == count })
}

// until waits until something is so.
func (s *scene) until(what string, ready func() bool) {
	s.Helper()
	for end := time.Now().Add(patience); !ready(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			s.Fatalf("not in time: %s", what)
		}
	}
}

// within waits for an event.
func within[T any](s *scene, what string, event <-chan T) T {
	s.Helper()
	select {
	case value := <-event:
		return value
	case <-time.After(patience):
		s.Fatalf("not in time: %s", what)
		panic("unreachable")
	}
}

// start runs a worker beside the test.
func start(s *scene, worker *remoraqueue.Worker) <-chan error {
	ended := make(chan error, 1)
	ctx := s.ctx()
	go func() { ended <- worker.Run(ctx) }()
	return ended
}

// quick are options of a queue that tries at once, three times.
func quick(db *sql.DB) remoraqueue.Options {
	return remoraqueue.Options{DB: db, Tries: 3, Backoff: remoraqueue.Backoff{Factor: 1}}
}

// made is a queue that is there, with payloads.
func made[P any](s *scene, name string, options remoraqueue.Options, payloads ...P) *remoraqueue.Queue[P] {
	s.Helper()
	queue, err := remoraqueue.New[P](name, options)
	s.must(err)
	s.must(queue.Create(s.ctx(), s.db))
	put(s, queue, payloads...)
	return queue
}

func put[P any](s *scene, queue *remoraqueue.Queue[P], payloads ...P) []string {
	s.Helper()
	messages := []remoraqueue.Message[P]{}
	for _, payload := range payloads {
		messages = append(messages, remoraqueue.Message[P]{Payload: payload})
	}
	ids, err := queue.PutMany(s.ctx(), s.db, messages)
	s.must(err)
	return ids
}

// taken takes a message, and gives it. Nil if none came.
func taken[P any](
	s *scene, queue *remoraqueue.Queue[P], on remoraqueue.Beginner, options remoraqueue.TakeOptions,
) *remoraqueue.Job[P] {
	s.Helper()
	var found *remoraqueue.Job[P]
	came, err := queue.Take(s.ctx(), on, func(_ context.Context, job *remoraqueue.Job[P], _ *sql.Tx) error {
		found = job
		return nil
	}, options)
	s.must(err)
	s.equal(came, found != nil)
	return found
}

// conn is a connection of the pool that ends with the test.
func (s *scene) conn(db *sql.DB) *sql.Conn {
	s.Helper()
	connection, err := db.Conn(s.ctx())
	s.must(err)
	s.Cleanup(func() { connection.Close() })
	return connection
}

// book is a log that keeps what it was told.
// noted is a list that goroutines add to.
