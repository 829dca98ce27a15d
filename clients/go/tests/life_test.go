package tests

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"os"

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
				s.run("KILL CONNECTION " + id)
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
type gate struct {
	path  string
	mutex sync.Mutex
	// Connections that are open; none while it is shut.
	open   map[net.Conn]bool
	isShut bool
	// What goes through waits for it.
	pass sync.RWMutex
}

func newGate(s *scene) *gate {
	g := &gate{path: filepath.Join(s.TempDir(), "gate"), open: make(map[net.Conn]bool)}
	listener, err := net.Listen("unix", g.path)
	s.must(err)
	s.Cleanup(func() {
		listener.Close()
		g.shut()
	})
	go func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("unix", os.Getenv("REMORA_QUEUE_SOCKET"))
			if err != nil || !g.enter(from, to) {
				from.Close()
				continue
			}
			go g.copy(to, from)
			go g.copy(from, to)
		}
	}()
	return g
}

func (g *gate) enter(both ...net.Conn) bool {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	for _, one := range both {
		if g.isShut {
			one.Close()
		} else {
			g.open[one] = true
		}
	}
	return !g.isShut
}

func (g *gate) copy(to, from net.Conn) {
	defer to.Close()
	defer from.Close()
	buffer := make([]byte, 1<<16)
	for {
		count, err := from.Read(buffer)
		g.pass.RLock()
		_, wrong := to.Write(buffer[:count])
		g.pass.RUnlock()
		if err != nil || wrong != nil {
			return
		}
	}
}

func (g *gate) shut() {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	g.isShut = true
	for one := range g.open {
		one.Close()
		delete(g.open, one)
	}
}

func (g *gate) reopen() {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	g.isShut = false
}

func TestAWorkerContinuesWhenTheServerWasAway(t *testing.T) {
	s := begin(t, "away")
	through := newGate(s)
	db, err := sql.Open("mysql", fmt.Sprintf("root@unix(%s)/%s", through.path, s.database))
	s.must(err)
	defer db.Close()
	queue := made(s, "away", quick(db), 1)
	put := func(payload int) {
		_, err := queue.Put(s.ctx(), s.db, payload)
		s.must(err)
	}
	var told book
	var ran noted
	began, mayEnd := make(chan struct{}, 9), make(chan struct{})
	worker := queue.Worker(func(_ context.Context, job intJob) error {
		ran.add("%d %d", job.Payload, job.Tries())
		began <- struct{}{}
		within(s, "it may end", mayEnd)
		return nil
	}, remoraqueue.WorkerOptions{Wait: 10 * time.Minute, Concurrency: 2, Log: told.log()})
	ended := start(s, worker)
	within(s, "it begins", began)
	s.untilWaiting(1)
	through.shut()
	s.untilWaiting(0)
	put(2)
	close(mayEnd)
	// The job has ended, and the server does not know yet.
	for _, text := range []string{"ends of jobs could not be told", "the queue can't be asked"} {
		s.until(text, func() bool { return told.has(text) })
	}
	s.equal(s.failures("away"), []string{"0"})
	through.reopen()
	s.until("both are done", func() bool { return s.count("away") == 0 })
	worker.Stop()
	s.must(within(s, "it stops", ended))
	s.equal(ran.list(), []string{"1 1", "2 1"})
}

func TestAWorkerStopsAlsoWhenTheServerIsAway(t *testing.T) {
	s := begin(t, "stays_away")
	through := newGate(s)
	db, err := sql.Open("mysql", fmt.Sprintf("root@unix(%s)/%s", through.path, s.database))
	s.must(err)
	defer db.Close()
	queue := made(s, "away", quick(db), 1)
	var told book
	var worker *remoraqueue.Worker
	worker = queue.Worker(func(context.Context, intJob) error {
		through.shut()
		worker.Stop()
		return nil
	}, remoraqueue.WorkerOptions{Lease: 2 * time.Second, Log: told.log()})
	s.must(within(s, "it stops", start(s, worker)))
	s.equal(told.has("it comes again when its lease has ended"), true)
	// Its lease ends by itself.
	job := taken(s, queue, s.db, remoraqueue.TakeOptions{Wait: patience})
	s.equal(job.Tries(), 2)
}

func TestAnExtensionThatIsNotAnsweredDoesNotHoldUpTheNext(t *testing.T) {
	s := begin(t, "silent")
	through := newGate(s)
	db, err := sql.Open("mysql", fmt.Sprintf("root@unix(%s)/%s", through.path, s.database))
	s.must(err)
	defer db.Close()
	queue := made(s, "silent", quick(db), 1)
	var told book
	options := remoraqueue.WorkerOptions{Lease: 3 * time.Second, Log: told.log()}
	var worker *remoraqueue.Worker
	worker = queue.Worker(func(ctx context.Context, job intJob) error {
		s.untilExtended("silent", 0.5)
		// Nothing arrives any more, and nothing is closed.
		through.pass.Lock()
		s.until("it is seen", func() bool { return told.has("leases could not be extended") })
		through.pass.Unlock()
		s.untilExtended("silent", 0.5)
		worker.Stop()
		return nil
	}, options)
	s.must(worker.Run(s.ctx()))
	s.equal(s.count("silent"), 0)
}
