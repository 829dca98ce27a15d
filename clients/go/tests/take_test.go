package tests

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"testing"
	"time"

	"remoraqueue"
)

type intJob = *remoraqueue.Job[int]

// never is for a message that was not to come.
func (s *scene) never(context.Context, intJob, *sql.Tx) error {
	s.Error("no message was to come")
	return nil
}

func (s *scene) done() []string { return s.rows("SELECT n FROM done ORDER BY n") }

// prepared is a scene with a table and a queue.
func prepared(t *testing.T, name string) (*scene, *remoraqueue.Queue[int], *sql.Conn) {
	s := begin(t, "take_"+name)
	s.run("CREATE TABLE done (n INT PRIMARY KEY) ENGINE=InnoDB")
	queue := made[int](s, name, remoraqueue.Options{Tries: 2, Backoff: remoraqueue.Backoff{Factor: 1}})
	return s, queue, s.conn(s.db)
}

func TestAMessageAndItsWorkAreOneCommit(t *testing.T) {
	s, queue, connection := prepared(t, "t")
	pool := s.open(s.database, "autocommit=0")
	for at, on := range []remoraqueue.Beginner{s.db, pool, connection, s.conn(pool)} {
		s.run("DELETE FROM done")
		put(s, queue, at)
		wrong := errors.New("no such host")
		came, err := queue.Take(s.ctx(), on, func(ctx context.Context, job intJob, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "INSERT INTO done VALUES (77)")
			s.must(err)
			return wrong
		}, remoraqueue.TakeOptions{})
		s.equal(came, true)
		s.equal(err == wrong, true)
		s.equal(s.done(), []string{})
		came, err = queue.Take(s.ctx(), on, func(ctx context.Context, job intJob, tx *sql.Tx) error {
			s.equal([]any{job.Payload, job.Tries(), job.Why()}, []any{at, 2, "no such host"})
			_, err := tx.ExecContext(ctx, "INSERT INTO done VALUES (7)")
			return err
		}, remoraqueue.TakeOptions{})
		s.must(err)
		s.equal(came, true)
		s.equal(s.done(), []string{"7"})
		s.equal(s.count(queue.Table()), 0)
		came, err = queue.Take(s.ctx(), on, s.never, remoraqueue.TakeOptions{})
		s.must(err)
		s.equal(came, false)
	}
	s.equal(s.value("SELECT COUNT(*) FROM information_schema.innodb_trx"), "0")
}

func TestAJobThatFailsEachTimeUsesItsTriesUp(t *testing.T) {
	s, queue, _ := prepared(t, "poison")
	s.run("INSERT INTO done VALUES (77)")
	put(s, queue, 1)
	for range 2 {
		_, err := queue.Take(s.ctx(), s.db, func(ctx context.Context, job intJob, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "INSERT INTO done VALUES (77)")
			return err
		}, remoraqueue.TakeOptions{})
		s.equal(number(err), uint16(1062))
	}
	_, err := queue.Take(s.ctx(), s.db, s.never, remoraqueue.TakeOptions{})
	s.must(err)
	s.equal(s.rows("SELECT payload, failed FROM "+queue.Dead()), []string{"1|2"})
}

func TestARetrySaysWhenAndSoDoesFail(t *testing.T) {
	s, queue, _ := prepared(t, "again")
	for _, failure := range []func(intJob) error{
		func(intJob) error { return fmt.Errorf("wrapped: %w", remoraqueue.RetryIn(time.Hour, "later")) },
		func(job intJob) error {
			job.Fail(remoraqueue.RetryIn(time.Hour, "later"))
			return nil
		},
	} {
		put(s, queue, 1)
		_, err := queue.Take(s.ctx(), s.db, func(_ context.Context, job intJob, _ *sql.Tx) error {
			return failure(job)
		}, remoraqueue.TakeOptions{})
		var retry *remoraqueue.RetryError
		s.equal(errors.As(err, &retry), true)
		s.equal([]any{retry.Reason, *retry.Delay}, []any{"later", time.Hour})
		_, err = queue.Take(s.ctx(), s.db, s.never, remoraqueue.TakeOptions{})
		s.must(err)
	}
	later := fmt.Sprintf("SELECT due_later FROM information_schema.queues WHERE table_schema = '%s'", s.database)
	s.equal(s.value(later+" AND table_name = 'again'"), "2")
}

func TestAPanicIsAFailedTry(t *testing.T) {
	s, queue, connection := prepared(t, "panics")
	put(s, queue, 1)
	func() {
		defer func() { s.equal(recover(), any("oh")) }()
		_, _ = queue.Take(s.ctx(), connection, func(ctx context.Context, job intJob, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "INSERT INTO done VALUES (1)")
			s.must(err)
			panic("oh")
		}, remoraqueue.TakeOptions{})
	}()
	s.equal(s.done(), []string{})
	job := taken(s, queue, connection, remoraqueue.TakeOptions{})
	s.equal(job.Tries(), 2)
}

func TestNothingIsCommittedWhenTheLeaseIsLost(t *testing.T) {
	s, queue, _ := prepared(t, "lost")
	put(s, queue, 1)
	steal := fmt.Sprintf("SELECT queue_lease_json(600, 1, '%s', 60)", queue.Name())
	// Without a sql.DB to extend it from.
	_, err := queue.Take(s.ctx(), s.conn(s.db), func(ctx context.Context, job intJob, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO done VALUES (5)")
		s.must(err)
		s.equal(regexp.MustCompile(`"try":2`).MatchString(s.value(steal)), true)
		return nil
	}, remoraqueue.TakeOptions{Lease: 50 * time.Millisecond})
	s.equal(errors.Is(err, remoraqueue.ErrLeaseLost), true)
	s.equal(s.done(), []string{})
	s.equal(s.count(queue.Dead()), 0)
}

func TestTheWorkIsToldThatTheLeaseIsLost(t *testing.T) {
	s, queue, connection := prepared(t, "told")
	put(s, queue, 1)
	stolen := make(chan struct{})
	db := s.through("queue_extend", func(_ string, run func() (string, error)) error {
		<-stolen
		_, err := run()
		return err
	})
	queue, err := remoraqueue.New[int](queue.Name(), remoraqueue.Options{DB: db})
	s.must(err)
	_, err = queue.Take(s.ctx(), connection, func(ctx context.Context, job intJob, tx *sql.Tx) error {
		s.value(fmt.Sprintf("SELECT queue_lease_json(600, 1, '%s', 60)", queue.Name()))
		close(stolen)
		within(s, "it is told", ctx.Done())
		s.equal(errors.Is(context.Cause(ctx), remoraqueue.ErrLeaseLost), true)
		return ctx.Err()
	}, remoraqueue.TakeOptions{Lease: 300 * time.Millisecond})
	s.equal([]bool{errors.Is(err, remoraqueue.ErrLeaseLost), errors.Is(err, context.Canceled)}, []bool{true, true})
	s.equal(s.failures(queue.Name()), []string{"1"})
}

func TestALeaseIsExtendedWhileTheWorkGoesOn(t *testing.T) {
	s, queue, _ := prepared(t, "kept")
	put(s, queue, 1)
	came, err := queue.Take(s.ctx(), s.db, func(_ context.Context, job intJob, tx *sql.Tx) error {
		s.untilExtended(queue.Name(), 0.5)
		return nil
	}, remoraqueue.TakeOptions{Lease: 3 * time.Second})
	s.must(err)
	s.equal(came, true)
}

func TestItBeginsWithATransactionOfItsOwn(t *testing.T) {
	s, queue, connection := prepared(t, "own")
	for _, query := range []string{"SET autocommit = 0", "SELECT * FROM done"} {
		_, err := connection.ExecContext(s.ctx(), query)
		s.must(err)
	}
	_, err := queue.Take(s.ctx(), connection, s.never, remoraqueue.TakeOptions{})
	s.equal(errors.Is(err, remoraqueue.ErrInTransaction), true)
	_, err = connection.ExecContext(s.ctx(), "ROLLBACK")
	s.must(err)
	came, err := queue.Take(s.ctx(), connection, s.never, remoraqueue.TakeOptions{})
	s.must(err)
	s.equal(came, false)
}

func TestAFailureIsToldAlsoWhenTheConnectionIsGone(t *testing.T) {
	s, queue, connection := prepared(t, "gone")
	queue, err := remoraqueue.New[int](queue.Name(), remoraqueue.Options{DB: s.db})
	s.must(err)
	put(s, queue, 1)
	var id string
	s.must(connection.QueryRowContext(s.ctx(), "SELECT CONNECTION_ID()").Scan(&id))
	_, err = queue.Take(s.ctx(), connection, func(ctx context.Context, job intJob, tx *sql.Tx) error {
		s.run("KILL " + id)
		_, err := tx.ExecContext(ctx, "SELECT SLEEP(600)")
		return err
	}, remoraqueue.TakeOptions{})
	s.equal(err != nil, true)
	job := taken(s, queue, s.db, remoraqueue.TakeOptions{})
	s.equal([]any{job.Tries(), job.Why()}, []any{2, err.Error()})
}
