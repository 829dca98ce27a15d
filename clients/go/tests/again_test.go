package tests

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"remoraqueue"
)

func TestAJobThatTakesLongerThanItsLeaseRunsOnce(t *testing.T) {
	s := begin(t, "longer")
	queue := made(s, "longer", quick(s.db), 1)
	var seen noted
	var worker *remoraqueue.Worker
	worker = queue.Worker(func(_ context.Context, job intJob) error {
		// Until it was extended twice. The other handler would get it if it were not.
		s.untilExtended("longer", 1.5)
		seen.add("%d", job.Tries())
		worker.Stop()
		return nil
	}, remoraqueue.WorkerOptions{Lease: 3 * time.Second, Concurrency: 2})
	s.must(worker.Run(s.ctx()))
	s.equal(seen.list(), []string{"1"})
	s.equal(s.count("longer"), 0)
}

func TestAMessageThatComesAgainIsNotRunAgainButKept(t *testing.T) {
	s := begin(t, "again")
	// It does not extend, so that the lease ends.
	db := s.through("queue_extend", func(string, func() (string, error)) error { return errors.New("not now") })
	queue := made(s, "again", quick(db), 1)
	var ran noted
	options := quiet()
	options.Lease, options.Concurrency = 500*time.Millisecond, 2
	var worker *remoraqueue.Worker
	worker = queue.Worker(func(_ context.Context, job intJob) error {
		ran.add("%d", job.Tries())
		token, fence := job.Token(), job.Fence()
		s.until("it comes again", func() bool { return job.Tries() > 1 && job.Token() != token && job.Fence() > fence })
		worker.Stop()
		return nil
	}, options)
	s.must(worker.Run(s.ctx()))
	s.equal(ran.list(), []string{"1"})
	s.equal(s.count("again"), 0)
	s.equal(s.count("again_dead"), 0)
}

func TestAMessageThatIsBackBeforeItsEndIsKnownRunsAgainWhenThereIsRoom(t *testing.T) {
	s := begin(t, "back")
	var ran noted
	var running, most, leases atomic.Int32
	returned, otherBegan, known := make(chan struct{}), make(chan struct{}), make(chan struct{})
	db := s.through("SELECT queue_", func(query string, run func() (string, error)) error {
		if strings.Contains(query, "queue_lease") && ran.len() > 0 {
			within(s, "it is returned", returned)
		}
		answer, err := run()
		if strings.Contains(answer, "token") {
			leases.Add(1)
		}
		if strings.Contains(query, "queue_nack") {
			close(returned)
			// The answer is held back until the other message runs: this one came again before it.
			within(s, "the other one runs", otherBegan)
			defer close(known)
		}
		return err
	})
	queue := made(s, "back", quick(db), 1, 2)
	var worker *remoraqueue.Worker
	worker = queue.Worker(func(_ context.Context, job intJob) error {
		ran.add("%d %d", job.Payload, job.Tries())
		most.Store(max(most.Load(), running.Add(1)))
		defer running.Add(-1)
		switch {
		case job.Payload == 2:
			s.equal(leases.Load(), int32(3))
			close(otherBegan)
			within(s, "it is known", known)
		case job.Tries() == 1:
			return remoraqueue.RetryIn(0, "once more")
		default:
			worker.Stop()
		}
		return nil
	}, remoraqueue.WorkerOptions{Wait: patience})
	s.must(worker.Run(s.ctx()))
	s.equal(ran.list(), []string{"1 1", "2 1", "1 2"})
	s.equal(most.Load(), int32(1))
	s.equal(s.count("back"), 0)
}

func TestAMessageWhoseLeaseEndsBeforeItsEndIsToldEnds(t *testing.T) {
	s := begin(t, "late")
	var told book
	var ran noted
	var leases atomic.Int32
	var worker *remoraqueue.Worker
	db := s.through("SELECT queue_", func(query string, run func() (string, error)) error {
		// The server does not hear of the end until the message was leased again.
		if strings.Contains(query, "queue_ack") && leases.Load() < 2 {
			return errors.New("not now")
		}
		answer, err := run()
		if strings.Contains(answer, "token") && leases.Add(1) == 2 {
			worker.Stop()
		}
		return err
	})
	queue := made(s, "late", quick(db), 1)
	worker = queue.Worker(func(_ context.Context, job intJob) error {
		ran.add("%d", job.Tries())
		return nil
	}, remoraqueue.WorkerOptions{Lease: 500 * time.Millisecond, Concurrency: 2, Log: told.log()})
	s.must(worker.Run(s.ctx()))
	s.equal(ran.list(), []string{"1"})
	s.equal(s.count("late"), 0)
	s.equal(told.has("came too late"), true)
}

func TestAJobIsToldThatSomebodyElseHasItsMessage(t *testing.T) {
	s := begin(t, "lost")
	var told book
	stolen := make(chan struct{})
	db := s.through("queue_extend", func(_ string, run func() (string, error)) error {
		within(s, "it is stolen", stolen)
		_, err := run()
		return err
	})
	queue := made(s, "lost", quick(db), 1)
	var worker *remoraqueue.Worker
	worker = queue.Worker(func(ctx context.Context, job intJob) error {
		s.equal(ctx.Err(), nil)
		worker.Stop()
		s.value("SELECT queue_lease_json(600, 1, 'lost', 60)")
		close(stolen)
		within(s, "it is told", ctx.Done())
		s.equal(errors.Is(context.Cause(ctx), remoraqueue.ErrLeaseLost), true)
		return context.Cause(ctx)
	}, remoraqueue.WorkerOptions{Lease: 500 * time.Millisecond, Log: told.log()})
	s.must(worker.Run(s.ctx()))
	s.equal(told.has("has ended while its job runs"), true)
	// It was given once more: the lease that ended is a failed try, and the late failure is none.
	s.equal(s.failures("lost"), []string{"1"})
}

func TestAMessageThatWasLostAndComesAgainIsExtendedAgain(t *testing.T) {
	s := begin(t, "found")
	stolen := make(chan struct{})
	var leases atomic.Int32
	db := s.through("SELECT queue_", func(query string, run func() (string, error)) error {
		// The thief is the first to get it when its lease has ended.
		if strings.Contains(query, "queue_extend") || strings.Contains(query, "queue_lease") && leases.Add(1) > 1 {
			within(s, "it is stolen", stolen)
		}
		_, err := run()
		return err
	})
	queue := made(s, "found", quick(db), 1)
	options := quiet()
	options.Lease, options.Concurrency = 2*time.Second, 2
	var worker *remoraqueue.Worker
	worker = queue.Worker(func(ctx context.Context, job intJob) error {
		s.value("SELECT queue_lease_json(0.3, 1, 'found', 60)")
		token := job.Token()
		close(stolen)
		within(s, "it is told", ctx.Done())
		s.until("it comes again", func() bool { return job.Token() != token })
		s.untilExtended("found", 0.5)
		s.equal(job.Tries(), 3)
		worker.Stop()
		return nil
	}, options)
	s.must(worker.Run(s.ctx()))
	s.equal(s.count("found"), 0)
}
