package tests

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"remoraqueue"
)

func TestWhatWillNeverWorkEndsAWorker(t *testing.T) {
	s := begin(t, "wrong")
	queue := made[int](s, "wrong", quick(s.db))
	none := func(context.Context, intJob) error { return nil }
	err := queue.Worker(none, remoraqueue.WorkerOptions{Where: "nothing = 1"}).Run(s.ctx())
	s.equal(number(err), uint16(51001))
	other, err := remoraqueue.New[int]("nothing", remoraqueue.Options{DB: s.db})
	s.must(err)
	s.equal(number(other.Worker(none, quiet()).Run(s.ctx())), uint16(1146))
	small, closed := s.open(s.database, ""), s.open(s.database, "")
	small.SetMaxOpenConns(5)
	closed.Close()
	exact := func(context.Context, intJob, *sql.Tx) error { return nil }
	unconnected, err := remoraqueue.New[int]("wrong", remoraqueue.Options{})
	s.must(err)
	for at, worker := range []*remoraqueue.Worker{
		unconnected.Worker(none, quiet()),
		queue.Worker(none, remoraqueue.WorkerOptions{Concurrency: -1}),
		queue.Worker(none, remoraqueue.WorkerOptions{Lease: -1}),
		queue.BatchWorker(0, nil, quiet()),
		queue.TransactionWorker(exact, remoraqueue.WorkerOptions{DB: small, Concurrency: 2}),
	} {
		if err := worker.Run(s.ctx()); !errors.Is(err, remoraqueue.ErrUsage) {
			t.Fatal(at, err)
		}
	}
	s.must(queue.TransactionWorker(exact, remoraqueue.WorkerOptions{DB: small}).RunOnce(s.ctx()))
	err = queue.Worker(none, remoraqueue.WorkerOptions{DB: closed}).Run(s.ctx())
	s.equal(err.Error(), "sql: database is closed")
}

func TestAWorkerContinuesWhenItsConnectionsEnd(t *testing.T) {
	for _, transaction := range []bool{false, true} {
		s := begin(t, fmt.Sprintf("broken_%v", transaction))
		pool := s.open(s.database, "")
		queue := made[int](s, "broken", quick(pool))
		var done noted
		options := quiet()
		options.Wait = 10 * time.Minute
		worker := queue.Worker(func(_ context.Context, job intJob) error {
			done.add("%d %d", job.Payload, job.Tries())
			return nil
		}, options)
		if transaction {
			worker = queue.TransactionWorker(func(_ context.Context, job intJob, _ *sql.Tx) error {
				done.add("%d %d", job.Payload, job.Tries())
				return nil
			}, options)
		}
		ended := start(s, worker)
		s.db.SetMaxOpenConns(1)
		for payload := range 3 {
			s.untilWaiting(1)
			others := fmt.Sprintf("SELECT id FROM information_schema.processlist WHERE db = '%s'"+
				" AND id != CONNECTION_ID()", s.database)
			for _, id := range s.rows(others) {
				s.kill(id)
				s.until("it ends", func() bool { return len(s.rows(others+" AND id = "+id)) == 0 })
			}
			s.untilWaiting(1)
			put(s, queue, payload)
			s.until("it is done", func() bool { return done.len() == payload+1 })
		}
		worker.Stop()
		s.must(within(s, "it stops", ended))
		s.equal(done.list(), []string{"0 1", "1 1", "2 1"})
		s.equal(s.count("broken"), 0)
	}
}

func TestAWaitThatSomebodyHasEndedBeginsAgain(t *testing.T) {
	s := begin(t, "interrupted")
	queue := made[int](s, "interrupted", quick(s.db))
	var told book
	done := make(chan int)
	worker := queue.Worker(func(_ context.Context, job intJob) error {
		done <- job.Payload
		return nil
	}, remoraqueue.WorkerOptions{Wait: 10 * time.Minute, Log: told.log()})
	ended := start(s, worker)
	s.untilWaiting(1)
	before := s.waiting()
	s.run("KILL QUERY " + before[0])
	put(s, queue, 1)
	s.equal(within(s, "it is done", done), 1)
	s.untilWaiting(1)
	// On the same connection.
	s.equal(s.waiting(), before)
	worker.Stop()
	s.must(within(s, "it stops", ended))
	s.equal(told.lines(), []string{})
}

func TestAStopEndsTheWaitAndLetsJobsEnd(t *testing.T) {
	for name, stopped := range map[string]bool{"stop": true, "context": false} {
		s := begin(t, "stopped_"+name)
		queue := made[int](s, "stopped", quick(s.db))
		began, mayEnd := make(chan struct{}), make(chan struct{})
		var done noted
		worker := queue.Worker(func(ctx context.Context, job intJob) error {
			close(began)
			within(s, "it may end", mayEnd)
			done.add("%d", job.Payload)
			return ctx.Err()
		}, remoraqueue.WorkerOptions{Wait: 10 * time.Minute, Concurrency: 2})
		ctx, cancel := context.WithCancel(s.ctx())
		ended := make(chan error)
		go func() { ended <- worker.Run(ctx) }()
		s.untilWaiting(1)
		s.equal(errors.Is(worker.Run(ctx), remoraqueue.ErrUsage), true)
		put(s, queue, 1)
		within(s, "it begins", began)
		// One handler works, and the worker waits for the other one's message.
		s.untilWaiting(1)
		if stopped {
			worker.Stop()
		}
		cancel()
		s.untilWaiting(0)
		put(s, queue, 2)
		s.equal([]int{done.len(), len(ended)}, []int{0, 0})
		close(mayEnd)
		s.must(within(s, "it stops", ended))
		s.equal(done.list(), []string{"1"})
		// Nobody has taken the second one, and the first one has ended.
		s.equal(s.rows("SELECT payload FROM stopped"), []string{"2"})
		s.equal(s.failures("stopped"), []string{})
	}
}

func TestAStopReturnsWhatHasNotBegunAndItWasNotTried(t *testing.T) {
	s := begin(t, "returned")
	var worker *remoraqueue.Worker
	db := s.through("queue_lease_json", func(_ string, run func() (string, error)) error {
		_, err := run()
		// The message is here, and nobody has begun with it.
		worker.Stop()
		return err
	})
	queue := made(s, "returned", quick(db), 1)
	worker = queue.Worker(func(context.Context, intJob) error {
		s.Error("it is too late to begin")
		return nil
	}, remoraqueue.WorkerOptions{Wait: 10 * time.Minute})
	s.must(worker.Run(s.ctx()))
	s.equal(taken(s, queue, s.db, remoraqueue.TakeOptions{}).Tries(), 1)
}

func TestAWorkerRunsAgainAfterAStopAndLeavesNoConnection(t *testing.T) {
	s := begin(t, "twice")
	pool := s.open(s.database, "")
	queue := made(s, "twice", quick(pool), 1)
	var done noted
	worker := queue.Worker(func(_ context.Context, job intJob) error {
		done.add("%d", job.Payload)
		return nil
	}, remoraqueue.WorkerOptions{})
	s.must(worker.RunOnce(s.ctx()))
	put(s, queue, 2)
	s.must(worker.RunOnce(s.ctx()))
	s.equal(done.list(), []string{"1", "2"})
	// Its own were set up for it, so the pool must give them to nobody.
	s.equal(pool.Stats().OpenConnections, 0)
}

// gate is between a worker and the server, and can be shut.
