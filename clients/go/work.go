package remoraqueue

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"
)

// fetch leases messages until the worker is to stop. The error is one that would come again.
func (w *Worker) fetch(below context.Context, lasts time.Duration, once bool) error {
	own := line{db: w.options.DB}
	defer func() { own.close() }()
	var pause pauses
	for {
		free := w.untilFree()
		if free == 0 {
			return nil
		}
		// A job that ends while the server answers may have put or returned something after the answer.
		wasIdle := w.isIdle()
		found, err := w.leaseSome(below, &own, free, lasts)
		switch {
		case err == nil:
			pause.reset()
			if once && !found {
				if wasIdle {
					w.Stop()
					return nil
				}
				w.untilIdle()
			}
		case w.stopping.Err() != nil:
			return nil
		case isInterrupted(err):
		case isLasting(err):
			w.Stop()
			return err
		default:
			w.options.Log.Warn("the queue can't be asked, which is tried again", "error", err)
			select {
			case <-w.stopping.Done():
			case <-time.After(pause.next()):
			}
		}
	}
}

// untilFree waits until handlers have nothing to do: how many. 0 when the worker is to stop.
func (w *Worker) untilFree() int {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	for w.stopping.Err() == nil {
		if free := w.options.Concurrency - w.busy - len(w.ready); free > 0 {
			return free
		}
		w.changed.Wait()
	}
	return 0
}

// isIdle is whether no job runs.
func (w *Worker) isIdle() bool {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return len(w.running) == 0
}

// untilIdle waits until no job runs.
func (w *Worker) untilIdle() {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	for w.stopping.Err() == nil && len(w.running) > 0 {
		w.changed.Wait()
	}
}

// leaseSome leases what can begin at once. Whether there was something.
func (w *Worker) leaseSome(below context.Context, own *line, free int, lasts time.Duration) (bool, error) {
	o := w.options
	if err := own.open(w.stopping); err != nil {
		return false, err
	}
	waits := wait{on: own.connection, id: own.id, db: o.DB, limit: lasts + max(o.Lease, answerPatience), log: o.Log}
	answer, err := waits.run(w.stopping, leaseStatement(w.table.full(), o.Where, o.Lease, free*w.batch, lasts))
	own.note(err)
	if err != nil {
		return false, err
	}
	found, err := leasedOf(below, answer)
	if err != nil {
		return false, err
	}
	w.mutex.Lock()
	defer w.mutex.Unlock()
	fresh := make([]*leased, 0, len(found))
	for _, job := range found {
		if !w.runsAlready(job) {
			fresh = append(fresh, job)
		}
	}
	w.beginSome(fresh)
	return len(found) > 0, nil
}

// runsAlready is whether this message is here: its lease has ended, or it was returned, and it came again.
// With the mutex.
func (w *Worker) runsAlready(job *leased) bool {
	runs := w.running[job.key()]
	if runs == nil {
		w.running[job.key()] = job
		return false
	}
	if runs.comesAgain(job) {
		w.keeper.add(runs)
	}
	return true
}

// beginSome begins jobs, as many as handlers are free for. With the mutex.
func (w *Worker) beginSome(jobs []*leased) {
	for _, job := range jobs {
		w.keeper.add(job)
	}
	for len(jobs) > 0 {
		size := min(w.batch, len(jobs))
		w.ready = append(w.ready, jobs[:size:size])
		jobs = jobs[size:]
	}
	for len(w.ready) > 0 && w.busy < w.options.Concurrency && w.stopping.Err() == nil {
		next := w.ready[0]
		w.ready = w.ready[1:]
		w.busy++
		go w.work(next)
	}
	w.changed.Broadcast()
}

// work runs the handler for jobs, and ends them.
func (w *Worker) work(jobs []*leased) {
	err := errUnfinished
	defer func() {
		// Also after runtime.Goexit, as tests call it: a job must not end the worker.
		if panicked := recover(); panicked != nil {
			err = fmt.Errorf("panic: %v", panicked)
			w.options.Log.Error("a handler has panicked", "panic", panicked, "stack", string(debug.Stack()))
		}
		w.worked(jobs, err)
	}()
	err = w.handle(context.WithoutCancel(w.stopping), jobs)
}

// commit does work and the end of its message in one transaction.
func (w *Worker) commit(job *leased, work workInTransaction) error {
	connection, err := w.options.DB.Conn(job.context)
	if err != nil {
		return err
	}
	defer connection.Close()
	found, err := first(job.context, connection, "SELECT @@autocommit")
	if err != nil {
		return err
	}
	return commitWith(job.context, connection, found[0].String == "1", job, func() { w.over(job) }, work)
}

// worked ends jobs whose handler has ended.
func (w *Worker) worked(jobs []*leased, err error) {
	w.note(jobs, err)
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.busy--
	ends := make([]ending, 0, len(jobs))
	for _, job := range jobs {
		job.cancel(nil)
		switch failed := job.failure(); {
		case failed != nil:
			ends = append(ends, ending{job: job, failed: failureOf(failed)})
		case w.transaction:
			w.forget(ending{job: job}, false)
		default:
			ends = append(ends, ending{job: job})
		}
	}
	w.end(ends...)
	w.beginSome(nil)
}

// note gives the jobs their failure, if they have none.
func (w *Worker) note(jobs []*leased, err error) {
	if err == nil {
		return
	}
	count := 0
	for _, job := range jobs {
		if job.failure() == nil {
			job.fail(err)
			count++
		}
	}
	if retry := new(RetryError); !errors.As(err, &retry) {
		w.options.Log.Warn("jobs have failed", "count", count, "first", jobs[0].currentToken(), "error", err)
	}
}

// over says that the handler of a job has ended: from now on its token does not change.
func (w *Worker) over(job *leased) {
	job.over()
	w.keeper.remove(job)
}

// end ends jobs, with as few statements as it takes.
func (w *Worker) end(some ...ending) {
	for _, one := range some {
		w.over(one.job)
	}
	w.ender.end(some...)
}

// hasEnded is called when a token was used.
func (w *Worker) hasEnded(one ending, isStale bool) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.forget(one, isStale)
}

// forget is for a job whose token was used. If it was stale, the message that is here again ends in the same
// way. With the mutex.
func (w *Worker) forget(one ending, isStale bool) {
	delete(w.running, one.job.key())
	if again := one.job.cameAgain(); again != nil {
		w.running[again.key()] = again
		switch {
		case isStale:
			w.end(ending{job: again, failed: one.failed, untried: one.untried})
		case w.stopping.Err() != nil:
			w.end(ending{job: again, untried: true})
		default:
			w.beginSome([]*leased{again})
		}
	}
	w.changed.Broadcast()
}
