package remoraqueue

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"strings"
	"time"
)

const leaseDefault = 30 * time.Second

// TakeOptions are those of [Queue.Take].
type TakeOptions struct {
	// Lease is extended while the work continues, if there is a sql.DB. 0 is 30 seconds.
	Lease time.Duration
	// Wait is how long the server waits for a message. 0 is not at all.
	Wait time.Duration
	// Where is a condition, for example "priority < 3". [Literal] quotes values.
	Where string
}

// errUnfinished is why a try has failed whose work has not returned.
var errUnfinished = errors.New("panic or runtime.Goexit")

// Take takes a message and the caller's changes in one transaction: both are there, or neither. It gives
// false if no message came. When work has returned nil, the message is ended and the transaction committed.
// work leaves COMMIT and ROLLBACK to Take.
//
// An error of work rolls back, counts as a failed try, and comes out, as a panic does. [ErrLeaseLost] says
// that somebody else has the message meanwhile, and nothing is committed. [ErrInTransaction] says that a
// transaction has begun on the connection: it may not see what was committed together with the message.
//
// The end of ctx ends the wait at once, takes nothing, and comes out. While work runs, it ends the context of
// work, and nothing is committed.
//
// With a sql.DB, Take uses one of its connections, and another one from a third of the lease on. With a
// sql.Conn it uses that, and Options.DB for the rest. Without Options.DB no lease is extended, and the end of
// ctx closes the connection.
func (q *Queue[P]) Take(
	ctx context.Context, on Beginner, work func(context.Context, *Job[P], *sql.Tx) error, options TakeOptions,
) (bool, error) {
	return q.table.take(ctx, on, options, func(of *leased, tx *sql.Tx) error {
		job, err := typed[P](of)
		if err != nil {
			return err
		}
		return work(of.context, job, tx)
	})
}

func (t *table) take(ctx context.Context, on Beginner, options TakeOptions, work workInTransaction) (bool, error) {
	if options.Lease == 0 {
		options.Lease = leaseDefault
	}
	db := t.options.DB
	if from, ok := on.(pool); ok {
		if given, ok := on.(*sql.DB); ok && db == nil {
			db = given
		}
		connection, err := from.Conn(ctx)
		if err != nil {
			return false, err
		}
		defer connection.Close()
		on = connection
	}
	found, err := t.checkTake(ctx, on, options.Where)
	if err != nil {
		return false, err
	}
	limit := options.Wait + max(options.Lease, answerPatience)
	waits := wait{on: on, id: found.id, db: db, limit: limit, log: slog.Default()}
	answer, err := waits.run(ctx, leaseStatement(t.full(), options.Where, options.Lease, 1, options.Wait))
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return false, err
	}
	jobs, err := leasedOf(ctx, answer)
	if err != nil || len(jobs) == 0 {
		return false, err
	}
	taking := taken{on: on, autocommit: found.autocommit, db: db, lease: options.Lease, job: jobs[0]}
	return true, taking.work(ctx, work)
}

// checkTake refuses to take where COMMIT would not end the message, or where something would not be seen.
func (t *table) checkTake(ctx context.Context, on Connection, where string) (state, error) {
	found, err := t.look(ctx, on)
	if err != nil {
		return found, err
	}
	if !t.isTransactional.Load() {
		return found, problemf(ErrUsage,
			"%s is not TRANSACTIONAL: COMMIT can't end its messages; use a Worker", t.full())
	}
	if found.inTransaction {
		return found, problemf(ErrInTransaction, "Take begins a transaction of its own: commit the one before, "+
			"which may not see what was committed together with the message")
	}
	// The server reads arguments of functions in the character set of the connection.
	if !isASCII(t.full()+where) && !strings.HasPrefix(found.charset, "utf8") {
		return found, problemf(ErrUsage,
			"a name or a condition has letters that need a connection with charset=utf8mb4")
	}
	return found, nil
}

// taken is a message that Take has.
type taken struct {
	on         Beginner
	autocommit bool
	db         *sql.DB
	lease      time.Duration
	job        *leased
}

func (t taken) work(ctx context.Context, work workInTransaction) error {
	defer t.job.cancel(nil)
	if ctx.Err() != nil {
		// It came while the wait was being ended.
		t.tell(ctx, releaseStatement(t.job.currentToken()))
		return context.Cause(ctx)
	}
	stopKeeping := func() {}
	if t.db != nil {
		keeper := newKeeper(t.db, t.lease, slog.Default())
		keeper.add(t.job)
		stopKeeping = keeper.close
	}
	why := errUnfinished
	defer func() {
		stopKeeping()
		// The queue is told of a failure after ROLLBACK: until then the token may be in use.
		if why != nil && !errors.Is(why, ErrLeaseLost) {
			t.tell(ctx, nackStatement(failureOf(why), t.job.currentToken()))
		}
	}()
	why = commitWith(ctx, t.on, t.autocommit, t.job, func() {
		t.job.over()
		stopKeeping()
	}, work)
	return why
}

// tell tells the queue of a message that is not done. The connection may be gone with an error, so another
// one is tried. If that fails too, the lease ends by itself.
func (t taken) tell(ctx context.Context, statement string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerPatience)
	defer cancel()
	_, err := first(ctx, t.on, statement)
	if err != nil && t.db != nil {
		own := line{db: t.db}
		_, err = own.run(ctx, statement)
		own.close()
	}
	if err != nil {
		slog.Default().Warn("the failure of a job could not be told; it comes again when its lease has ended",
			"token", t.job.currentToken(), "error", err)
	}
}
