package remoraqueue

import (
	"context"
	"database/sql"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

// WorkerOptions are those of workers. The zero value is a good one, if the queue has a sql.DB.
type WorkerOptions struct {
	// DB is where connections are from; by default that of the queue. A worker has up to four of its own, and
	// with transactions one more for each handler. Its MaxOpenConns must allow them.
	DB *sql.DB
	// Lease is extended while its job runs. So it is for how long a message is away when its worker is
	// killed. 0 is 30 seconds.
	Lease time.Duration
	// Wait is for how long the server waits for a message before the worker asks again. Keep it below the
	// readTimeout of the driver. 0 is 20 seconds.
	Wait time.Duration
	// Concurrency is how many handlers run at the same time. 0 is 1.
	Concurrency int
	// Where is a condition, for example "priority < 3". [Literal] quotes values.
	Where string
	// Log is told what went wrong. By default, slog.Default() is.
	Log *slog.Logger
}

// Worker runs a handler for the messages of a queue. The handler's return of nil ends the message. An error
// is a failed try with its text as the reason, and so is a panic. [Retry] and [RetryIn] are errors that are
// expected.
type Worker struct {
	table   *table
	options WorkerOptions
	batch   int
	// Whether the end of the handler has committed the end of the message.
	transaction bool
	handle      func(context.Context, []*leased) error
	// Ends when the worker is to stop.
	stopping context.Context
	keeper   *keeper
	ender    *ender

	mutex   sync.Mutex
	changed *sync.Cond
	runs    bool
	stop    context.CancelFunc
	// Groups of jobs that nobody has begun.
	ready [][]*leased
	// How many handlers run.
	busy int
	// By key, until their messages have ended.
	running map[string]*leased
}

// Worker makes a worker. The context of the handler ends when the lease is lost; see [Job.Context].
func (q *Queue[P]) Worker(handler func(context.Context, *Job[P]) error, options WorkerOptions) *Worker {
	return newWorker(q.table, options, 1, func(_ context.Context, jobs []*leased) error {
		job, err := typed[P](jobs[0])
		if err != nil {
			return err
		}
		return handler(jobs[0].context, job)
	})
}

// BatchWorker makes a worker whose handler is given up to `size` jobs at a time. An error is a failed try of
// all of them, and [Job.Fail] of one. Each job has a context of its own: [Job.Context].
func (q *Queue[P]) BatchWorker(
	size int, handler func(context.Context, []*Job[P]) error, options WorkerOptions,
) *Worker {
	return newWorker(q.table, options, size, func(ctx context.Context, all []*leased) error {
		jobs := make([]*Job[P], 0, len(all))
		for _, of := range all {
			job, err := typed[P](of)
			if err != nil {
				of.fail(err)
				continue
			}
			jobs = append(jobs, job)
		}
		if len(jobs) == 0 {
			return nil
		}
		return handler(ctx, jobs)
	})
}

// TransactionWorker makes a worker whose handler is given a transaction. What it changes in InnoDB there and
// the end of the message are one COMMIT: exactly once. The handler leaves COMMIT and ROLLBACK to the worker.
func (q *Queue[P]) TransactionWorker(
	handler func(context.Context, *Job[P], *sql.Tx) error, options WorkerOptions,
) *Worker {
	made := newWorker(q.table, options, 1, nil)
	made.transaction = true
	made.handle = func(_ context.Context, jobs []*leased) error {
		return made.commit(jobs[0], func(of *leased, tx *sql.Tx) error {
			job, err := typed[P](of)
			if err != nil {
				return err
			}
			return handler(of.context, job, tx)
		})
	}
	return made
}

func newWorker(of *table, options WorkerOptions, batch int, handle func(context.Context, []*leased) error) *Worker {
	if options.DB == nil {
		options.DB = of.options.DB
	}
	if options.Lease == 0 {
		options.Lease = leaseDefault
	}
	if options.Wait == 0 {
		options.Wait = 20 * time.Second
	}
	if options.Concurrency == 0 {
		options.Concurrency = 1
	}
	if options.Log == nil {
		options.Log = slog.Default()
	}
	made := &Worker{table: of, options: options, batch: batch, handle: handle}
	made.changed = sync.NewCond(&made.mutex)
	return made
}

// Signals is a context that ends at SIGTERM and at an interrupt. A second signal does what it did before: by
// default it ends the program at once.
func Signals(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(parent, os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// Run works until ctx ends or Stop is called. Then it takes nothing more, lets the jobs that run end, and
// returns nil: the contexts of handlers do not end with ctx. While the server is away, it tries again. An
// error that would come again at every try ends it too, and is returned: that of the driver for a wrong
// privilege, condition or table, or [ErrUsage].
func (w *Worker) Run(ctx context.Context) error { return w.run(ctx, w.options.Wait, false) }

// RunOnce is Run, and also ends when nothing waits and no job runs.
func (w *Worker) RunOnce(ctx context.Context) error { return w.run(ctx, 0, true) }

// Stop does what the end of the context of Run does. It may be called from a handler, and does not wait.
func (w *Worker) Stop() {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.stop != nil {
		w.stop()
	}
}

// check refuses what could never work.
func (w *Worker) check() error {
	o := w.options
	if o.DB == nil {
		return problemf(ErrUsage, "a worker needs a sql.DB, in its own options or in those of the queue")
	}
	if o.Concurrency < 1 || w.batch < 1 || o.Lease < 0 || o.Wait < 0 {
		return problemf(ErrUsage, "numbers and times of a worker are not negative, and a batch has a job")
	}
	needed := 4
	if w.transaction {
		needed += o.Concurrency
	}
	if most := o.DB.Stats().MaxOpenConnections; most > 0 && most < needed {
		return problemf(ErrUsage, "the sql.DB allows %d connections, and this worker needs %d", most, needed)
	}
	return nil
}

// begin makes the worker one that runs, until the function that it returns is called.
func (w *Worker) begin(ctx context.Context) (func(), error) {
	if err := w.check(); err != nil {
		return nil, err
	}
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.runs {
		return nil, problemf(ErrUsage, "this worker runs already; make another one")
	}
	w.runs, w.running = true, make(map[string]*leased)
	w.stopping, w.stop = context.WithCancel(ctx)
	w.keeper = newKeeper(w.options.DB, w.options.Lease, w.options.Log)
	w.ender = newEnder(w.options.DB, w.options.Lease, w.options.Log, w.hasEnded)
	unwatch := context.AfterFunc(w.stopping, func() {
		w.mutex.Lock()
		defer w.mutex.Unlock()
		w.changed.Broadcast()
	})
	return func() {
		unwatch()
		w.ender.close()
		w.keeper.close()
		w.mutex.Lock()
		defer w.mutex.Unlock()
		w.stop()
		w.runs, w.stop = false, nil
	}, nil
}

func (w *Worker) run(ctx context.Context, wait time.Duration, once bool) error {
	end, err := w.begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	err = w.fetch(context.WithoutCancel(ctx), wait, once)
	w.mutex.Lock()
	defer w.mutex.Unlock()
	for _, jobs := range w.ready {
		for _, job := range jobs {
			w.end(ending{job: job, untried: true})
		}
	}
	w.ready = nil
	for w.busy > 0 {
		w.changed.Wait()
	}
	return err
}
