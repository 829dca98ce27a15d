package tests

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"remoraqueue"
)

type stringJob = *remoraqueue.Job[string]

// quiet are options of a worker whose log nobody reads.
func quiet() remoraqueue.WorkerOptions { return remoraqueue.WorkerOptions{Log: new(book).log()} }

func TestJobsAreDoneOrTriedAgainOrDead(t *testing.T) {
	s := begin(t, "some")
	queue := made[string](s, "some", quick(s.db))
	ids := put(s, queue, "good", "twice", "never", "later")
	var told book
	var tried noted
	options := remoraqueue.WorkerOptions{Log: told.log()}
	s.must(queue.Worker(func(_ context.Context, job stringJob) error {
		tried.add("%s %d", job.Payload, job.Tries())
		switch {
		case job.Payload == "never" || job.Payload == "twice" && job.Tries() == 1:
			return errors.New("no such h\u00f6st")
		case job.Payload == "later":
			return remoraqueue.RetryIn(time.Hour, "not yet")
		}
		s.equal(job.Why(), map[bool]string{true: `no such h\u00f6st`}[job.Tries() > 1])
		s.equal(slices.Contains(ids, job.ID()), true)
		return nil
	}, options).RunOnce(s.ctx()))
	got := tried.list()
	slices.Sort(got)
	s.equal(got, []string{"good 1", "later 1", "never 1", "never 2", "never 3", "twice 1", "twice 2"})
	s.equal(len(told.lines()), 4)
	s.equal(s.rows("SELECT id, payload, failed, why FROM some_dead"), []string{ids[2] + `|"never"|3|no such h\u00f6st`})
	s.equal(s.failures("some"), []string{"1"})
}

func TestWhateverAHandlerDoesIsAFailedTry(t *testing.T) {
	s := begin(t, "odd")
	queue := made(s, "odd", quick(s.db), "panic", "nil", "goexit", "long", "wrapped", "{")
	s.run("UPDATE odd SET payload = payload WHERE FALSE")
	var told book
	s.must(queue.Worker(func(_ context.Context, job stringJob) error {
		switch job.Payload {
		case "panic":
			panic("oh")
		case "nil":
			var nothing map[string]int
			nothing["x"] = 1
		case "goexit":
			runtime.Goexit()
		case "long":
			return errors.New(strings.Repeat("x", 5000))
		}
		return fmt.Errorf("wrapped: %w", remoraqueue.Retry("again"))
	}, remoraqueue.WorkerOptions{Log: told.log(), Concurrency: 3}).RunOnce(s.ctx()))
	dead := s.rows("SELECT CONCAT(payload, LEFT(why, 40), LENGTH(why)) FROM odd_dead")
	slices.Sort(dead)
	s.equal(dead, []string{
		`"goexit"panic or runtime.Goexit23`, `"long"` + strings.Repeat("x", 40) + "1000",
		`"nil"panic: assignment to entry in nil map37`, `"panic"panic: oh9`,
		`"wrapped"wrapped: again14`, `"{"wrapped: again14`,
	})
	s.equal(told.has("worker_test.go"), true)
	s.equal(told.has("wrapped: again"), false)
}

func TestAPayloadOfAnotherTypeIsAFailedTry(t *testing.T) {
	s := begin(t, "typed")
	made(s, "typed", quick(s.db), "text")
	queue := made(s, "typed", quick(s.db), 1)
	var done noted
	s.must(queue.Worker(func(_ context.Context, job intJob) error {
		done.add("%d", job.Payload)
		return nil
	}, quiet()).RunOnce(s.ctx()))
	s.equal(done.list(), []string{"1"})
	s.equal(s.value("SELECT why FROM typed_dead"),
		"the payload is no int: json: cannot unmarshal string into Go value of type int")
	made(s, "typed", quick(s.db), "text")
	put(s, queue, 2, 3)
	s.must(queue.BatchWorker(5, func(_ context.Context, jobs []intJob) error {
		for _, job := range jobs {
			done.add("%d", job.Payload)
		}
		return nil
	}, quiet()).RunOnce(s.ctx()))
	s.equal(done.list(), []string{"1", "2", "3"})
	s.equal(s.count("typed_dead"), 2)
}

func TestNoMoreRunThanAreAllowedAndAsManyAsCan(t *testing.T) {
	s := begin(t, "many")
	var running, most, arrived atomic.Int32
	together := make(chan struct{})
	rows := regexp.MustCompile(`, '(\d+)'`)
	// What is leased can begin at once.
	db := s.through("queue_lease", func(query string, run func() (string, error)) error {
		asked, _ := strconv.Atoi(rows.FindStringSubmatch(query)[1])
		most.Store(max(most.Load(), running.Load()+int32(asked)))
		_, err := run()
		return err
	})
	queue := made(s, "many", quick(db), make([]int, 30)...)
	s.must(queue.Worker(func(context.Context, intJob) error {
		now := running.Add(1)
		defer running.Add(-1)
		if arrived.Add(1) == 3 {
			close(together)
		}
		within(s, "three run", together)
		if now > 3 {
			most.Store(now)
		}
		return nil
	}, remoraqueue.WorkerOptions{Concurrency: 3}).RunOnce(s.ctx()))
	s.equal([]int32{most.Load(), arrived.Load()}, []int32{3, 30})
	s.equal(s.count("many"), 0)
}

func TestManyJobsEndWithOneStatement(t *testing.T) {
	s := begin(t, "few")
	var statements, done atomic.Int32
	free := make(chan struct{})
	db := s.through("queue_ack", func(_ string, run func() (string, error)) error {
		statements.Add(1)
		// The first end is under way until all jobs are done.
		within(s, "all are done", free)
		_, err := run()
		return err
	})
	queue := made(s, "few", quick(db), make([]int, 60)...)
	s.must(queue.Worker(func(context.Context, intJob) error {
		if done.Add(1) == 60 {
			close(free)
		}
		return nil
	}, remoraqueue.WorkerOptions{Concurrency: 30}).RunOnce(s.ctx()))
	s.equal(s.count("few"), 0)
	s.equal(statements.Load() <= 4, true)
}

func TestABatchEndsWithoutThoseThatFailed(t *testing.T) {
	s := begin(t, "batch")
	payloads := []int{}
	for number := range 25 {
		payloads = append(payloads, number)
	}
	queue := made(s, "batch", quick(s.db), payloads...)
	var sizes noted
	s.must(queue.BatchWorker(10, func(_ context.Context, jobs []intJob) error {
		sizes.add("%d", len(jobs))
		var err error
		for _, job := range jobs {
			if job.Payload == 7 || job.Payload == 23 {
				job.Fail(remoraqueue.RetryIn(time.Hour, "not this one"))
			}
			if job.Payload >= 20 {
				err = errors.New("the last ones")
			}
			s.equal(job.Context().Err(), nil)
		}
		return err
	}, quiet()).RunOnce(s.ctx()))
	s.equal(sizes.list()[:3], []string{"10", "10", "5"})
	// Those of the last batch are tried three times, then they are dead. 23 has said when it comes again.
	s.equal(s.count("batch"), 2)
	s.equal(s.count("batch_dead"), 4)
}

func TestATransactionEndsTheMessageOrChangesNothing(t *testing.T) {
	s := begin(t, "exact")
	var failing atomic.Bool
	db := s.through("COMMIT", func(_ string, run func() (string, error)) error {
		if failing.Swap(false) {
			return errors.New("no COMMIT")
		}
		_, err := run()
		return err
	})
	queue := made(s, "exact", quick(db), 1, 2, 3, 4, 5, 6)
	s.run("CREATE TABLE exactly (n INT PRIMARY KEY) ENGINE=InnoDB")
	s.run("INSERT INTO exactly VALUES (3)")
	var whys noted
	s.must(queue.TransactionWorker(func(ctx context.Context, job intJob, tx *sql.Tx) error {
		if job.Tries() > 1 {
			whys.add("%d %s", job.Payload, job.Why())
		}
		if _, err := tx.ExecContext(ctx, fmt.Sprintf("INSERT INTO exactly VALUES (%d)", job.Payload)); err != nil {
			return err
		}
		switch first := job.Tries() == 1; {
		case job.Payload == 2 && first:
			return errors.New("after its work")
		case job.Payload == 4 && job.Tries() < 3:
			job.Fail(errors.New("not now"))
		case job.Payload == 5 && first:
			failing.Store(true)
		case job.Payload == 6 && first:
			panic("oh")
		}
		return nil
	}, quiet()).RunOnce(s.ctx()))
	s.equal(s.rows("SELECT n FROM exactly ORDER BY n"), []string{"1", "2", "3", "4", "5", "6"})
	got := slices.DeleteFunc(whys.list(), func(why string) bool { return why[0] == '3' })
	slices.Sort(got)
	s.equal(got, []string{"2 after its work", "4 not now", "4 not now", "5 no COMMIT", "6 panic: oh"})
	// A transaction that fails each time does not come for ever.
	s.equal(s.rows("SELECT payload, failed FROM exact_dead"), []string{"3|3"})
	s.equal(s.count("exact"), 0)
	s.equal(s.value("SELECT COUNT(*) FROM information_schema.innodb_trx"), "0")
}

func TestAnExactWorkerCommitsNothingWhenItsLeaseIsLost(t *testing.T) {
	s := begin(t, "stolen")
	db := s.through("queue_extend", func(string, func() (string, error)) error { return errors.New("not now") })
	queue := made(s, "stolen", quick(db), 1)
	s.run("CREATE TABLE done (n INT) ENGINE=InnoDB")
	options := quiet()
	options.Lease = 200 * time.Millisecond
	var worker *remoraqueue.Worker
	worker = queue.TransactionWorker(func(ctx context.Context, job intJob, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO done VALUES (1)")
		s.must(err)
		s.value("SELECT queue_lease_json(600, 1, 'stolen', 60)")
		worker.Stop()
		return nil
	}, options)
	s.must(worker.Run(s.ctx()))
	s.equal([]int{s.count("done"), s.count("stolen_dead")}, []int{0, 0})
	s.equal(s.failures("stolen"), []string{"1"})
}
