package tests

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"testing"

	"remoraqueue"
)

var errOnPurpose = errors.New("on purpose")

// deadlock makes the server roll a transaction back: another one waits for it, and has changed more.
func (s *scene) deadlock(tx *sql.Tx) {
	s.Helper()
	s.run("DROP TABLE IF EXISTS ballast, locked")
	s.run("CREATE TABLE ballast ENGINE=InnoDB SELECT seq FROM seq_1_to_100")
	s.run("CREATE TABLE locked (n INT PRIMARY KEY, of INT) ENGINE=InnoDB")
	s.run("INSERT INTO locked VALUES (1, 0), (2, 0)")
	other, err := s.db.BeginTx(s.ctx(), nil)
	s.must(err)
	change := func(on *sql.Tx, query string) error {
		_, err := on.ExecContext(s.ctx(), query)
		return err
	}
	s.must(change(other, "UPDATE ballast SET seq = seq + 1"))
	s.must(change(other, "UPDATE locked SET of = 9 WHERE n = 2"))
	s.must(change(tx, "UPDATE locked SET of = 1 WHERE n = 1"))
	changed := make(chan error, 1)
	go func() { changed <- change(other, "UPDATE locked SET of = 9 WHERE n = 1") }()
	s.until("the other one waits", func() bool {
		// Whoever reads innodb_trx more often than each 0.1 s sees the same copy again and again.
		return s.value("SELECT variable_value FROM information_schema.global_status "+
			"WHERE variable_name = 'Innodb_row_lock_current_waits'") == "1"
	})
	s.equal(number(change(tx, "UPDATE locked SET of = 1 WHERE n = 2")), uint16(1213))
	s.must(within(s, "the other one goes on", changed))
	s.must(other.Rollback())
}

// autocommits is whether statements on a connection commit themselves.
func (s *scene) autocommits(on remoraqueue.Connection) string {
	s.Helper()
	rows, err := on.QueryContext(s.ctx(), "SELECT @@autocommit, CONNECTION_ID()")
	s.must(err)
	defer rows.Close()
	var autocommit, id string
	s.equal(rows.Next(), true)
	s.must(rows.Scan(&autocommit, &id))
	return autocommit
}

func TestWorkThatADeadlockHasRolledBackDoesNotEndTheMessage(t *testing.T) {
	s, queue, connection := prepared(t, "deadlock")
	with, without := s.open(s.database, ""), s.open(s.database, "autocommit=0")
	for _, one := range []struct {
		on         remoraqueue.Beginner
		autocommit string
	}{{with, "1"}, {without, "0"}, {connection, "1"}, {s.conn(without), "0"}} {
		put(s, queue, 1)
		_, err := queue.Take(s.ctx(), one.on, func(ctx context.Context, job intJob, tx *sql.Tx) error {
			s.deadlock(tx)
			// Whoever ignores this is in no transaction, or in another one.
			_, err := tx.ExecContext(ctx, "INSERT INTO done VALUES (1)")
			s.must(err)
			return nil
		}, remoraqueue.TakeOptions{})
		s.equal(err != nil && strings.Contains(err.Error(), "the transaction of the job had ended"), true)
		s.equal(s.done(), []string{})
		s.equal(s.autocommits(one.on), one.autocommit)
		job := taken(s, queue, one.on, remoraqueue.TakeOptions{})
		s.equal([]any{job.Tries(), job.Why()}, []any{2, err.Error()})
		s.equal(s.count(queue.Table()), 0)
	}
	s.equal(s.value("SELECT COUNT(*) FROM information_schema.innodb_trx"), "0")
}

func TestAJobThatADeadlockHasRolledBackIsDoneAgain(t *testing.T) {
	s := begin(t, "deadlocked")
	s.run("CREATE TABLE done (n INT) ENGINE=InnoDB")
	for _, autocommit := range []string{"1", "0"} {
		s.run("DELETE FROM done")
		db := s.open(s.database, "autocommit="+autocommit)
		queue := made(s, "deadlocked", quick(db), 1)
		var whys noted
		s.must(queue.TransactionWorker(func(ctx context.Context, job intJob, tx *sql.Tx) error {
			whys.add("%s", job.Why())
			if job.Tries() == 1 {
				s.deadlock(tx)
			}
			_, err := tx.ExecContext(ctx, "INSERT INTO done VALUES (?)", job.Tries())
			return err
		}, remoraqueue.WorkerOptions{Log: new(book).log()}).RunOnce(s.ctx()))
		s.equal(whys.list(), []string{"", "the transaction of the job had ended before its message, as a deadlock does"})
		s.equal(s.rows("SELECT n FROM done"), []string{"2"})
		s.equal(s.count("deadlocked"), 0)
		s.equal(s.autocommits(db), autocommit)
	}
}

func TestNothingIsLeftOnAConnectionOfThePool(t *testing.T) {
	s, queue, _ := prepared(t, "left")
	for _, autocommit := range []string{"0", "1"} {
		db := s.open(s.database, "autocommit="+autocommit)
		s.run("DELETE FROM done")
		leavesNothing(s, queue, db)
		states := []string{}
		for range 2 {
			var state string
			query := "SELECT CONCAT(@@in_transaction + 0, @@autocommit + 0, @@queue_owner + 0)"
			s.must(s.conn(db).QueryRowContext(s.ctx(), query).Scan(&state))
			states = append(states, state)
		}
		s.equal(slices.Compact(states), []string{"0" + autocommit + "0"})
		s.equal(s.leasedUntil(queue.Name()), 0.0)
	}
	s.equal(s.value("SELECT COUNT(*) FROM information_schema.innodb_trx"), "0")
}

// leavesNothing is what should leave nothing on the two connections of a pool.
func leavesNothing(s *scene, queue *remoraqueue.Queue[int], db *sql.DB) {
	db.SetMaxOpenConns(2)
	work := func(ctx context.Context, job intJob, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO done VALUES (1)")
		s.must(err)
		return errors.New("it fails")
	}
	for range 2 {
		_, err := queue.Put(s.ctx(), db, 1)
		s.must(err)
		_, err = queue.Take(s.ctx(), db, work, remoraqueue.TakeOptions{})
		s.equal(err.Error(), "it fails")
		_, err = queue.Take(s.ctx(), db, s.never, remoraqueue.TakeOptions{Where: "payload = 'x'"})
		s.must(err)
		taken(s, queue, db, remoraqueue.TakeOptions{})
	}
}

// onItsConnection is work that notes the number of its connection, and changes something.
func (s *scene) onItsConnection(id *string, result error) func(context.Context, intJob, *sql.Tx) error {
	return func(ctx context.Context, _ intJob, tx *sql.Tx) error {
		s.must(tx.QueryRowContext(ctx, "SELECT CONNECTION_ID()").Scan(id))
		_, err := tx.ExecContext(ctx, "INSERT INTO done VALUES (1)")
		s.must(err)
		return result
	}
}

func (s *scene) untilClosed(id string) {
	s.Helper()
	s.until("the connection is closed", func() bool {
		return s.value("SELECT COUNT(*) FROM information_schema.processlist WHERE id = "+id) == "0"
	})
}

func TestAConnectionIsClosedThatCannotBeAsItWas(t *testing.T) {
	s, queue, _ := prepared(t, "closed")
	for _, one := range []struct {
		fails  string
		result error
		done   []string
	}{{"ROLLBACK", errOnPurpose, []string{}}, {"SET autocommit = 1", nil, []string{"1"}}} {
		db := s.through(one.fails, func(string, func() (string, error)) error { return errors.New("not now") })
		for _, on := range []remoraqueue.Beginner{db, s.conn(db), struct{ *sql.Conn }{s.conn(db)}} {
			s.run("DELETE FROM done")
			put(s, queue, 1)
			var id string
			came, err := queue.Take(s.ctx(), on, s.onItsConnection(&id, one.result), remoraqueue.TakeOptions{})
			s.equal([]any{came, err == one.result}, []any{true, true})
			s.equal(s.done(), one.done)
			s.untilClosed(id)
		}
		s.run("DELETE FROM done")
		of, err := remoraqueue.New[int](queue.Name(), remoraqueue.Options{DB: db})
		s.must(err)
		s.run("DELETE FROM " + queue.Table())
		put(s, queue, 1)
		var id string
		var worker *remoraqueue.Worker
		work := s.onItsConnection(&id, one.result)
		worker = of.TransactionWorker(func(ctx context.Context, job intJob, tx *sql.Tx) error {
			worker.Stop()
			return work(ctx, job, tx)
		}, quiet())
		s.must(worker.Run(s.ctx()))
		s.equal(s.done(), one.done)
		s.untilClosed(id)
	}
}

func TestAutocommitIsOnAgainWhenATransactionCannotBeginOrEnd(t *testing.T) {
	s, queue, _ := prepared(t, "unbegun")
	for _, fails := range []string{"SET autocommit = 0", "SAVEPOINT", "RELEASE"} {
		put(s, queue, 1)
		connection := s.conn(s.through(fails, func(_ string, run func() (string, error)) error {
			_, err := run()
			s.must(err)
			return errOnPurpose
		}))
		var id string
		_, err := queue.Take(s.ctx(), connection, s.onItsConnection(&id, nil), remoraqueue.TakeOptions{})
		s.equal(err == errOnPurpose, true)
		s.equal(s.autocommits(connection), "1")
		s.equal(s.done(), []string{})
		job := taken(s, queue, s.db, remoraqueue.TakeOptions{})
		s.equal([]any{job.Tries(), job.Why()}, []any{2, "on purpose"})
	}
}
