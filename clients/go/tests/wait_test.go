package tests

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"remoraqueue"
)

func TestAPutEndsTheWait(t *testing.T) {
	s, queue, _ := prepared(t, "woken")
	jobs := make(chan int)
	go func() {
		came, err := queue.Take(s.ctx(), s.db, func(_ context.Context, job intJob, _ *sql.Tx) error {
			jobs <- job.Payload
			return nil
		}, remoraqueue.TakeOptions{Wait: 10 * time.Minute})
		s.equal([]any{came, err}, []any{true, nil})
		close(jobs)
	}()
	s.untilWaiting(1)
	put(s, queue, 5)
	s.equal(within(s, "it comes", jobs), 5)
	within(s, "it ends", jobs)
}

func TestTheEndOfAContextEndsTheWaitAndTakesNothing(t *testing.T) {
	for name, hasPool := range map[string]bool{"pool": true, "none": false} {
		s, queue, connection := prepared(t, "canceled_"+name)
		if hasPool {
			with, err := remoraqueue.New[int](queue.Name(), remoraqueue.Options{DB: s.db})
			s.must(err)
			queue = with
		}
		ctx, cancel := context.WithCancelCause(s.ctx())
		ended := make(chan error)
		go func() {
			came, err := queue.Take(ctx, connection, s.never, remoraqueue.TakeOptions{Wait: 10 * time.Minute})
			s.equal(came, false)
			ended <- err
		}()
		s.untilWaiting(1)
		why := errors.New("enough")
		cancel(why)
		s.equal(within(s, "it ends", ended) == why, true)
		s.untilWaiting(0)
		put(s, queue, 1)
		s.equal(taken(s, queue, s.db, remoraqueue.TakeOptions{}).Tries(), 1)
		// KILL QUERY leaves the connection as it was; without a pool to send it from it is closed.
		_, err := connection.ExecContext(s.ctx(), "SELECT 1")
		s.equal(err == nil, hasPool)
	}
}

func TestAWaitEndsAlsoWhenThePoolHasNoConnectionToEndItFrom(t *testing.T) {
	s, queue, _ := prepared(t, "narrow")
	db := s.open(s.database, "")
	db.SetMaxOpenConns(1)
	ctx, cancel := context.WithCancel(s.ctx())
	ended := make(chan error)
	go func() {
		_, err := queue.Take(ctx, db, s.never, remoraqueue.TakeOptions{Wait: 10 * time.Minute})
		ended <- err
	}()
	s.untilWaiting(1)
	cancel()
	s.equal(errors.Is(within(s, "it ends", ended), context.Canceled), true)
	s.untilWaiting(0)
	put(s, queue, 1)
	s.equal(taken(s, queue, db, remoraqueue.TakeOptions{}).Tries(), 1)
}

func TestAMessageThatComesWhileTheWaitIsEndedIsReturned(t *testing.T) {
	s, queue, _ := prepared(t, "late")
	put(s, queue, 1)
	ctx, cancel := context.WithCancel(s.ctx())
	db := s.through("queue_lease", func(_ string, run func() (string, error)) error {
		_, err := run()
		cancel()
		return err
	})
	_, err := queue.Take(ctx, db, s.never, remoraqueue.TakeOptions{Wait: 10 * time.Minute})
	s.equal(errors.Is(err, context.Canceled), true)
	s.equal(taken(s, queue, s.db, remoraqueue.TakeOptions{}).Tries(), 1)
}

func TestTheEndOfAContextEndsTheWork(t *testing.T) {
	s, queue, connection := prepared(t, "ended")
	for _, on := range []remoraqueue.Beginner{s.db, connection} {
		put(s, queue, 1)
		ctx, cancel := context.WithCancel(s.ctx())
		_, err := queue.Take(ctx, on, func(ctx context.Context, job intJob, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "INSERT INTO done VALUES (1)")
			s.must(err)
			cancel()
			<-ctx.Done()
			return nil
		}, remoraqueue.TakeOptions{})
		s.equal(errors.Is(err, context.Canceled), true)
		s.equal(s.done(), []string{})
		job := taken(s, queue, on, remoraqueue.TakeOptions{})
		s.equal([]any{job.Tries(), job.Why()}, []any{2, "context canceled"})
	}
}
