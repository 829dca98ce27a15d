package remoraqueue

import (
	"context"
	"database/sql"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// Options are those of [Queue.Create]; an existing table keeps its own. Fifo, Dedupe and Priority say which
// columns the table has: give them as when it was made.
type Options struct {
	// DB is for those who need connections of their own: workers, and Take to extend its lease and to end its
	// wait.
	DB *sql.DB
	// Plain makes a table that takes no part in transactions. It is faster, and ROLLBACK does not undo a put.
	Plain bool
	// Tries is how often a message is tried before it is moved to the table NAME_dead. 0 is 5, and a negative
	// number is no limit.
	Tries int
	// Backoff is how long a message waits after a failed try. By default, 10 seconds, then twice as long each
	// time, and at most an hour.
	Backoff Backoff
	// Fifo allows messages to have a Key.
	Fifo bool
	// Dedupe allows messages to have a Dedupe.
	Dedupe bool
	// DedupeFor is for how long a second message with the same Dedupe is left out, in whole seconds. 0 is for
	// as long as the first one waits. It says Dedupe too.
	DedupeFor time.Duration
	// Priority allows messages to have a Priority.
	Priority bool
	// Keep is for how long messages are kept that have ended, in whole seconds. 0 is not at all.
	Keep time.Duration
}

// Backoff is how long a message waits after each failed try. With a Factor of 0 it is the default one.
type Backoff struct {
	// First is the wait after the first failed try, to the millisecond.
	First time.Duration
	// Factor makes each further wait longer. It has at most three decimals.
	Factor float64
	// Most is the longest wait. 0 is no limit.
	Most time.Duration
}

// Queue is a table with ENGINE=QUEUE whose payloads are a P, as JSON. It can be used by many goroutines.
type Queue[P any] struct{ table *table }

// table is a queue, whatever the type of its payloads.
type table struct {
	database string
	name     string
	options  Options
	// What the table itself says, once somebody has looked.
	isTransactional atomic.Bool
}

// A part of a name, and a name with its database or without: as in SQL.
const namePart = "(`(?:[^`]|``)+`|[^`.]+)"

var nameForm = regexp.MustCompile(`^(?:` + namePart + `\.)?` + namePart + `$`)

var isTransactionalForm = regexp.MustCompile("(?i)\\btransactional`?\\s*=\\s*'?1")

// New is a queue by its name, "table" or "db.table", with backticks around a part that has a dot, as in SQL.
// It asks no server. The error is [ErrUsage], for a name or an option that is none.
func New[P any](name string, options Options) (*Queue[P], error) {
	made, err := newTable(name, options)
	if err != nil {
		return nil, err
	}
	return &Queue[P]{table: made}, nil
}

// Must is for queues in variables of a package: it panics where [New] has an error.
func Must[P any](queue *Queue[P], err error) *Queue[P] {
	if err != nil {
		panic(err)
	}
	return queue
}

func newTable(name string, options Options) (*table, error) {
	found := nameForm.FindStringSubmatch(name)
	if found == nil || strings.ContainsRune(name, '\\') {
		return nil, problemf(ErrUsage,
			"%q is no name of a table; write db.table, with backticks around odd parts", name)
	}
	for _, lasts := range []time.Duration{options.Keep, options.DedupeFor} {
		if lasts < 0 || lasts%time.Second != 0 {
			return nil, problemf(ErrUsage, "%v is not in whole seconds", lasts)
		}
	}
	if options.Tries == 0 {
		options.Tries = 5
	}
	if options.Backoff.Factor == 0 {
		options.Backoff = Backoff{First: 10 * time.Second, Factor: 2, Most: time.Hour}
	}
	options.Dedupe = options.Dedupe || options.DedupeFor > 0
	return &table{database: unquoted(found[1]), name: unquoted(found[2]), options: options}, nil
}

func unquoted(part string) string {
	if !strings.HasPrefix(part, "`") {
		return part
	}
	return strings.ReplaceAll(part[1:len(part)-1], "``", "`")
}

// Database is the name's first part. It is empty if the connection's database decides.
func (q *Queue[P]) Database() string { return q.table.database }

// Name is the table's name without its database.
func (q *Queue[P]) Name() string { return q.table.name }

// Dead is the name of the table of messages that have failed too often, without its database.
func (q *Queue[P]) Dead() string { return q.table.dead() }

// Table is the full name in backticks, for SQL and for the functions of the queue.
func (q *Queue[P]) Table() string { return q.table.full() }

// DDL are the statements that Create runs, for those who keep their DDL elsewhere.
func (q *Queue[P]) DDL() []string { return q.table.ddl() }

// Create makes the tables if they are not there. As all DDL, it commits the connection's transaction.
func (q *Queue[P]) Create(ctx context.Context, on Connection) error {
	for _, statement := range q.table.ddl() {
		if _, err := on.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

func (t *table) dead() string { return t.name + "_dead" }

func (t *table) full() string { return t.named(t.name) }

func (t *table) named(name string) string {
	if t.database == "" {
		return quoted(name)
	}
	return quoted(t.database) + "." + quoted(name)
}

func (t *table) ddl() []string {
	columns := []string{
		"id CHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL",
		"payload LONGTEXT NOT NULL",
		"at TIMESTAMP(6) NULL",
	}
	options := []string{"DUE=at", fmt.Sprintf("KEEP=%d", t.options.Keep/time.Second)}
	if t.options.Fifo {
		columns = append(columns, "message_key VARCHAR(190) COLLATE utf8mb4_bin NULL")
		options = append(options, "FIFO=message_key")
	}
	if t.options.Dedupe {
		columns = append(columns, "dedupe_key VARCHAR(190) COLLATE utf8mb4_bin NULL")
		options = append(options, fmt.Sprintf("DEDUPE=dedupe_key DEDUPE_FOR=%d", t.options.DedupeFor/time.Second))
	}
	if t.options.Priority {
		columns = append(columns, "priority INT NOT NULL DEFAULT 0")
		options = append(options, "PRIORITY=priority")
	}
	if !t.options.Plain {
		options = append(options, "TRANSACTIONAL=1")
	}
	if t.options.Tries < 0 {
		return []string{creation(t.full(), columns, options)}
	}
	dead := t.named(t.dead())
	wait := t.options.Backoff
	options = append(options, fmt.Sprintf("TRIES=%d BACKOFF='%s,%s,%s' DEAD=%s", t.options.Tries,
		decimal(wait.First.Seconds()), decimal(wait.Factor), decimal(wait.Most.Seconds()), plain(dead)))
	more := append(append([]string{}, columns...), "failed INT NULL", "why TEXT NULL")
	return []string{
		creation(dead, more, []string{"FAILED=failed", "WHY=why"}),
		creation(t.full(), columns, options),
	}
}

func decimal(of float64) string { return strconv.FormatFloat(of, 'f', -1, 64) }

func creation(table string, columns, options []string) string {
	return fmt.Sprintf("CREATE TABLE IF NOT EXISTS %s (%s) ENGINE=QUEUE CHARSET=utf8mb4 %s",
		table, strings.Join(columns, ", "), strings.Join(options, " "))
}

// state is what a connection is, and what the table is.
type state struct {
	inTransaction bool
	autocommit    bool
	id            string
	charset       string
}

// look asks the server for the state, and notes whether the table takes part in transactions.
func (t *table) look(ctx context.Context, on Connection) (state, error) {
	found, err := first(ctx, on, stateStatement(t.database, t.name))
	if err != nil {
		return state{}, err
	}
	if !strings.HasPrefix(found[2].String, "QUEUE") {
		return state{}, problemf(ErrNotAQueue, "%s is no table with ENGINE=QUEUE; Create makes one", t.full())
	}
	t.isTransactional.Store(isTransactionalForm.MatchString(found[2].String))
	return state{
		inTransaction: found[0].String == "1",
		autocommit:    found[1].String == "1",
		id:            found[3].String,
		charset:       found[4].String,
	}, nil
}
