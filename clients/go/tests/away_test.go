package tests

import (
	"context"
	"database/sql"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"remoraqueue"
)

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
