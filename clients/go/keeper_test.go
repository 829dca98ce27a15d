package remoraqueue

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"
)

// What no server can be made to do at the right moment: answers that come too late. So there is none.

// fake is a driver whose extensions a function answers.
type fake func(ctx context.Context, query string) (stale string, err error)

func (f fake) Connect(context.Context) (driver.Conn, error) { return f, nil }
func (f fake) Driver() driver.Driver                        { return nil }
func (f fake) Prepare(string) (driver.Stmt, error)          { return nil, errors.New("nothing is prepared") }
func (f fake) Begin() (driver.Tx, error)                    { return nil, errors.New("no transactions") }
func (f fake) Close() error                                 { return nil }

func (f fake) ExecContext(context.Context, string, []driver.NamedValue) (driver.Result, error) {
	return driver.ResultNoRows, nil
}

func (f fake) QueryContext(ctx context.Context, query string, _ []driver.NamedValue) (driver.Rows, error) {
	if !strings.Contains(query, "queue_extend") {
		return &oneRow{values: []string{"1"}}, nil
	}
	stale, err := f(ctx, query)
	return &oneRow{values: []string{"0", stale}}, err
}

type oneRow struct {
	values []string
	isRead bool
}

func (r *oneRow) Columns() []string { return r.values }
func (r *oneRow) Close() error      { return nil }

func (r *oneRow) Next(into []driver.Value) error {
	if r.isRead {
		return io.EOF
	}
	for at, value := range r.values {
		into[at] = value
	}
	r.isRead = true
	return nil
}

// told are the lines of a log.
type told struct {
	mutex sync.Mutex
	lines []string
}

func (t *told) Write(line []byte) (int, error) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.lines = append(t.lines, string(line))
	return len(line), nil
}

func newLeased(token string) *leased {
	made := &leased{token: token}
	made.context, made.cancel = context.WithCancelCause(context.Background())
	return made
}

func receive[T any](t *testing.T, from <-chan T) (got T) {
	t.Helper()
	select {
	case got = <-from:
	case <-time.After(time.Minute):
		t.Fatal("not in time")
	}
	return got
}

func TestAnAnswerAboutAFormerTokenIsNoneAboutTheJob(t *testing.T) {
	again, ended, lost := newLeased("q:1-a"), newLeased("q:2-a"), newLeased("q:3-a")
	var log told
	extended := make(chan string, 100)
	var keeping *keeper
	db := sql.OpenDB(fake(func(_ context.Context, query string) (string, error) {
		select {
		case extended <- query:
		default:
		}
		// While the answer is on its way one is leased again, and one has ended.
		again.comesAgain(&leased{token: "q:4-a"})
		keeping.remove(ended)
		return "q:1-a,q:2-a,q:3-a", nil
	}))
	defer db.Close()
	keeping = &keeper{line: line{db: db}, lease: time.Minute, log: slog.New(slog.NewTextHandler(&log, nil)), jobs: map[*leased]bool{}}
	for _, job := range []*leased{again, ended, lost} {
		keeping.add(job)
	}
	for range 2 {
		if err := keeping.extend(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	receive(t, extended)
	if second := receive(t, extended); second != "SELECT queue_extend('q:4-a', '60.000'), queue_stale()" {
		t.Fatal(second)
	}
	for job, isLost := range map[*leased]bool{again: false, ended: false, lost: true} {
		if errors.Is(context.Cause(job.context), ErrLeaseLost) != isLost {
			t.Fatal(job.token, context.Cause(job.context))
		}
	}
	if len(log.lines) != 1 {
		t.Fatal(log.lines)
	}
}

func TestTheEndOfAKeeperEndsWhatItDoesAndIsNoFailure(t *testing.T) {
	var log told
	asked := make(chan bool)
	db := sql.OpenDB(fake(func(ctx context.Context, _ string) (string, error) {
		asked <- true
		<-ctx.Done()
		return "", errors.New("the connection is broken")
	}))
	defer db.Close()
	keeping := newKeeper(db, 3*time.Second, slog.New(slog.NewTextHandler(&log, nil)))
	keeping.add(newLeased("q:1-a"))
	receive(t, asked)
	closed := make(chan bool)
	go func() {
		keeping.close()
		close(closed)
	}()
	receive(t, closed)
	if len(log.lines) != 0 {
		t.Fatal(log.lines)
	}
}
