package remoraqueue

import (
	"context"
	"database/sql"
	"testing"
)

// crowded is a worker for two handlers, one of which runs until the function that is returned is called.
func crowded(t *testing.T, handle func(*leased)) (*Worker, func()) {
	ended := make(chan struct{})
	blocks := newLeased("q:0-a")
	db := sql.OpenDB(fake(nil))
	made := newWorker(&table{}, WorkerOptions{DB: db, Concurrency: 2}, 1, func(_ context.Context, jobs []*leased) error {
		if jobs[0] == blocks {
			<-ended
		} else {
			handle(jobs[0])
		}
		return nil
	})
	end, err := made.begin(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	made.mutex.Lock()
	defer made.mutex.Unlock()
	made.beginSome([]*leased{blocks})
	return made, func() {
		close(ended)
		end()
		db.Close()
	}
}

func TestNoMoreIsAskedForThanCanBegin(t *testing.T) {
	worker, end := crowded(t, nil)
	defer end()
	if free := worker.untilFree(); free != 1 {
		t.Fatal(free)
	}
	worker.mutex.Lock()
	worker.ready = append(worker.ready, []*leased{newLeased("q:1-a")})
	worker.mutex.Unlock()
	asked := make(chan int)
	go func() { asked <- worker.untilFree() }()
	// Also while all handlers are busy.
	worker.Stop()
	if free := receive(t, asked); free != 0 {
		t.Fatal(free)
	}
}

func TestJobsBeginWhenAHandlerIsFree(t *testing.T) {
	began, mayEnd := make(chan *leased), make(chan struct{})
	worker, end := crowded(t, func(job *leased) {
		began <- job
		<-mayEnd
	})
	defer end()
	one, other := newLeased("q:1-a"), newLeased("q:2-a")
	worker.mutex.Lock()
	worker.beginSome([]*leased{one, other})
	busy, ready := worker.busy, len(worker.ready)
	worker.mutex.Unlock()
	if busy != 2 || ready != 1 {
		t.Fatal(busy, ready)
	}
	if first := receive(t, began); first != one {
		t.Fatal(first.token)
	}
	close(mayEnd)
	if second := receive(t, began); second != other {
		t.Fatal(second.token)
	}
}
