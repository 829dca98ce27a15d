package tests

import (
	"encoding/base64"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"remoraqueue"
)

// Signs that a quoting, a character set or a template may change.
const odd = "\u00e9\U0001f600'\"\\';?:n%s\n\x00"

// number is the server's number of an error.
func number(err error) uint16 {
	var told *mysql.MySQLError
	errors.As(err, &told)
	if told == nil {
		return 0
	}
	return told.Number
}

func TestAMessageIsThereIfItsTransactionIs(t *testing.T) {
	s := begin(t, "there")
	queue := made[map[string]string](s, "jobs", remoraqueue.Options{})
	ctx := s.ctx()
	tx, err := s.db.Begin()
	s.must(err)
	_, err = queue.Put(ctx, tx, map[string]string{"n": "1"})
	s.must(err)
	s.must(tx.Rollback())
	s.equal(s.count("jobs"), 0)
	tx, err = s.db.Begin()
	s.must(err)
	id, err := queue.Put(ctx, tx, map[string]string{"n": odd})
	s.must(err)
	s.equal(regexp.MustCompile("^[0-9a-f]{32}$").MatchString(id), true)
	s.must(tx.Commit())
	job := taken(s, queue, s.db, remoraqueue.TakeOptions{})
	s.equal([]any{job.ID(), job.Payload["n"], job.Tries(), job.Why()}, []any{id, odd, 1, ""})
	s.equal(job.Fence() > 0, true)
	s.equal(strings.Contains(job.Token(), fmt.Sprintf(":%d-", job.Fence())), true)
	s.equal(taken(s, queue, s.db, remoraqueue.TakeOptions{}) == nil, true)
	functions, err := remoraqueue.New[func()]("jobs", remoraqueue.Options{})
	s.must(err)
	if _, err = functions.Put(ctx, s.db, func() {}); !errors.Is(err, remoraqueue.ErrUsage) {
		t.Fatal(err)
	}
}

func TestNoOptionOfAConnectionChangesAMessage(t *testing.T) {
	s := begin(t, "modes")
	queue := made[string](s, "modes", remoraqueue.Options{Fifo: true})
	for _, parameters := range []string{
		"sql_mode=%27NO_BACKSLASH_ESCAPES,ANSI_QUOTES%27&interpolateParams=true",
		"charset=latin1&parseTime=true&clientFoundRows=true",
		"charset=utf8mb4&multiStatements=true&columnsWithAlias=true",
		"autocommit=0",
	} {
		db := s.open(s.database, parameters)
		for _, on := range []remoraqueue.Beginner{db, s.conn(db)} {
			_, err := queue.PutMessage(s.ctx(), on, remoraqueue.Message[string]{Payload: odd, Key: odd})
			s.must(err)
			if parameters == "autocommit=0" && on != remoraqueue.Beginner(db) {
				_, err = on.ExecContext(s.ctx(), "COMMIT")
				s.must(err)
			}
			where := "payload != " + remoraqueue.Literal(`\`)
			job := taken(s, queue, on, remoraqueue.TakeOptions{Where: where})
			s.equal([]string{job.Payload, job.Row["message_key"].String}, []string{odd, odd})
		}
		s.equal(s.value("SELECT COUNT(*) FROM information_schema.innodb_trx"), "0")
	}
}

func TestAConditionThatTheCharacterSetChangesIsRefused(t *testing.T) {
	s := begin(t, "charset")
	queue := made(s, "charset", remoraqueue.Options{Fifo: true}, "x")
	s.run("UPDATE charset SET message_key = 'x' WHERE FALSE")
	where := "message_key = " + remoraqueue.Literal("\u00e9")
	db := s.open(s.database, "charset=latin1")
	_, err := queue.Take(s.ctx(), db, nil, remoraqueue.TakeOptions{Where: where})
	s.equal(errors.Is(err, remoraqueue.ErrUsage), true)
	s.equal(taken(s, queue, s.db, remoraqueue.TakeOptions{Where: where}) == nil, true)
}

func TestAPutThatRollbackWouldNotUndoIsRefused(t *testing.T) {
	s := begin(t, "plain")
	queue := made[int](s, "plain", remoraqueue.Options{Plain: true})
	ctx := s.ctx()
	connection := s.conn(s.db)
	_, err := connection.ExecContext(ctx, "SET autocommit = 0")
	s.must(err)
	_, err = queue.Put(ctx, connection, 1)
	s.equal(errors.Is(err, remoraqueue.ErrInTransaction), true)
	_, err = connection.ExecContext(ctx, "SET autocommit = 1")
	s.must(err)
	tx, err := connection.BeginTx(ctx, nil)
	s.must(err)
	_, err = queue.Put(ctx, tx, 1)
	s.equal(errors.Is(err, remoraqueue.ErrInTransaction), true)
	s.equal(s.count("plain"), 0)
	// What is meant is said by giving the pool.
	_, err = queue.Put(ctx, s.db, 1)
	s.must(err)
	s.must(tx.Rollback())
	_, err = queue.Put(ctx, connection, 2)
	s.must(err)
	s.equal(s.count("plain"), 2)
	_, err = queue.Take(ctx, connection, nil, remoraqueue.TakeOptions{})
	s.equal(errors.Is(err, remoraqueue.ErrUsage), true)
}

func TestTheTableDecidesWhetherItIsAPartOfTransactions(t *testing.T) {
	s := begin(t, "decides")
	made[int](s, "really_plain", remoraqueue.Options{Plain: true})
	s.run("CREATE TABLE other (id INT) ENGINE=InnoDB")
	tx, err := s.db.Begin()
	s.must(err)
	for name, wanted := range map[string]error{
		"really_plain": remoraqueue.ErrInTransaction,
		"other":        remoraqueue.ErrNotAQueue,
		"nothing":      remoraqueue.ErrNotAQueue,
	} {
		queue, err := remoraqueue.New[int](name, remoraqueue.Options{})
		s.must(err)
		if _, err = queue.Put(s.ctx(), tx, 1); !errors.Is(err, wanted) {
			t.Fatal(name, err)
		}
		if _, err = queue.Put(s.ctx(), s.db, 1); name != "really_plain" && !errors.Is(err, wanted) {
			t.Fatal(name, err)
		}
	}
	s.must(tx.Rollback())
}

func TestADelayNeedsNoCareForTimeZones(t *testing.T) {
	s := begin(t, "later")
	queue := made[string](s, "later", remoraqueue.Options{})
	at := time.Now().Add(time.Hour)
	for _, zone := range []string{"-05:00", "+00:00", "+05:00"} {
		connection := s.conn(s.db)
		_, err := connection.ExecContext(s.ctx(), fmt.Sprintf("SET time_zone = '%s'", zone))
		s.must(err)
		for _, message := range []remoraqueue.Message[string]{
			{Payload: "delay", Delay: time.Hour - time.Second/2}, {Payload: "at", At: at.In(time.FixedZone("x", 7200))},
		} {
			_, err = queue.PutMessage(s.ctx(), connection, message)
			s.must(err)
		}
	}
	all := "SET STATEMENT queue_show_owned = ON FOR SELECT"
	s.equal(s.value(all+" COUNT(*) FROM later WHERE at IS NOT NULL"), "6")
	s.equal(s.value(all+" COUNT(*) FROM later WHERE UNIX_TIMESTAMP(at) - UNIX_TIMESTAMP(NOW(6)) BETWEEN 3000 AND 3600"), "6")
	for _, wrong := range []remoraqueue.Message[string]{{At: at, Delay: 1}, {Delay: -1}} {
		if _, err := queue.PutMessage(s.ctx(), s.db, wrong); !errors.Is(err, remoraqueue.ErrUsage) {
			t.Fatal(err)
		}
	}
}

func TestAShortDelayIsExact(t *testing.T) {
	s := begin(t, "soon")
	queue := made[string](s, "soon", remoraqueue.Options{})
	_, err := queue.PutMessage(s.ctx(), s.db, remoraqueue.Message[string]{Payload: "soon", Delay: 250 * time.Millisecond})
	s.must(err)
	s.equal(taken(s, queue, s.db, remoraqueue.TakeOptions{}) == nil, true)
	job := taken(s, queue, s.db, remoraqueue.TakeOptions{Wait: patience})
	// The row knows when it was due, and it was not given before.
	s.equal(s.value(fmt.Sprintf("SELECT UTC_TIMESTAMP(6) >= '%s'", job.Row["at"].String)), "1")
}

func TestKeysDuplicatesAndPriorities(t *testing.T) {
	s := begin(t, "all")
	queue := made[int](s, "queue", remoraqueue.Options{Fifo: true, DedupeFor: time.Minute, Priority: true})
	ids, err := queue.PutMany(s.ctx(), s.db, []remoraqueue.Message[int]{
		{Payload: 1, Key: "a", Priority: 5},
		{Payload: 2, Key: "a", Priority: 1},
		{Payload: 3, Key: "b", Priority: 4},
		{Payload: 4, Dedupe: "x", Priority: 6},
		{Payload: 5, Dedupe: "x", Priority: 0},
	})
	s.must(err)
	s.equal(len(ids), 5)
	none, err := queue.PutMany(s.ctx(), s.db, nil)
	s.must(err)
	s.equal(len(none), 0)
	s.must(queue.Create(s.ctx(), s.db))
	for _, wanted := range []int{3, 1, 2, 4} {
		s.equal(taken(s, queue, s.db, remoraqueue.TakeOptions{}).Payload, wanted)
	}
	s.equal(taken(s, queue, s.db, remoraqueue.TakeOptions{}) == nil, true)
	bare := made[int](s, "bare", remoraqueue.Options{})
	for _, wrong := range []remoraqueue.Message[int]{{Key: "a"}, {Dedupe: "a"}, {Priority: 1}} {
		if _, err := bare.PutMessage(s.ctx(), s.db, wrong); !errors.Is(err, remoraqueue.ErrUsage) {
			t.Fatal(err)
		}
	}
	// While the first one waits, another one is left out; then no longer.
	waits := made[int](s, "waits", remoraqueue.Options{Dedupe: true})
	for range 2 {
		for range 2 {
			_, err := waits.PutMessage(s.ctx(), s.db, remoraqueue.Message[int]{Dedupe: "x"})
			s.must(err)
		}
		s.equal(s.count("waits"), 1)
		taken(s, waits, s.db, remoraqueue.TakeOptions{})
	}
}

func TestABadMessageLeavesNone(t *testing.T) {
	s := begin(t, "bad")
	queue := made[int](s, "bad", remoraqueue.Options{Fifo: true})
	_, err := queue.PutMany(s.ctx(), s.db, []remoraqueue.Message[int]{{}, {Key: strings.Repeat("x", 200)}})
	s.equal(number(err), uint16(1406))
	s.equal(s.count("bad"), 0)
}

func TestNamesHaveAlmostAnySign(t *testing.T) {
	s := begin(t, "names")
	for _, wrong := range []string{"", "a.b.c", "`a", "a\\b", ".a"} {
		if _, err := remoraqueue.New[int](wrong, remoraqueue.Options{}); !errors.Is(err, remoraqueue.ErrUsage) {
			t.Fatal(wrong, err)
		}
	}
	s.run("CREATE DATABASE IF NOT EXISTS `go.too \u00e9`")
	defer s.run("DROP DATABASE `go.too \u00e9`")
	name := "`go.too \u00e9`.`a.b,c``d:e?'\"%s :x\u00e9`"
	queue := made[string](s, name, remoraqueue.Options{DB: s.db})
	s.equal([]string{queue.Database(), queue.Name(), queue.Table()}, []string{"go.too \u00e9", "a.b,c`d:e?'\"%s :x\u00e9", name})
	put(s, queue, "it's")
	where := "payload = " + remoraqueue.Literal(`"it's"`)
	ended := start(s, queue.Worker(nil, remoraqueue.WorkerOptions{Where: "payload = 'x'"}))
	s.until("it waits", func() bool { return len(s.waiting()) == 1 })
	s.equal(len(ended), 0)
	s.equal(taken(s, queue, s.db, remoraqueue.TakeOptions{Where: where}).Payload, "it's")
}

func TestNumbersThatJSONWouldChangeAreText(t *testing.T) {
	s := begin(t, "big")
	s.run("CREATE TABLE big (id BIGINT UNSIGNED, payload TEXT, data BLOB, none INT) ENGINE=QUEUE TRANSACTIONAL=1")
	s.run("INSERT INTO big VALUES (18446744073709551615, 'no JSON', 'bytes', NULL), (1, NULL, '', 5)")
	queue, err := remoraqueue.New[any]("big", remoraqueue.Options{})
	s.must(err)
	job := taken(s, queue, s.db, remoraqueue.TakeOptions{})
	s.equal([]any{job.ID(), job.Payload, job.Row["none"].Valid}, []any{"18446744073709551615", "no JSON", false})
	bytes, err := base64.StdEncoding.DecodeString(job.Row["data"].String)
	s.must(err)
	s.equal(string(bytes), "bytes")
	job = taken(s, queue, s.db, remoraqueue.TakeOptions{})
	s.equal([]any{job.Payload, job.Row["none"].String}, []any{nil, "5"})
	s.run("INSERT INTO big VALUES (2, 'no JSON', '', 5)")
	text, err := remoraqueue.New[string]("big", remoraqueue.Options{})
	s.must(err)
	s.equal(taken(s, text, s.db, remoraqueue.TakeOptions{}).Payload, "no JSON")
}

func TestOptionsAreThoseOfTheTable(t *testing.T) {
	s := begin(t, "options")
	queue := made[int](s, "all", remoraqueue.Options{
		Tries: 7, Keep: time.Hour, Backoff: remoraqueue.Backoff{First: 1500 * time.Millisecond, Factor: 1.5, Most: time.Minute},
	})
	table := s.rows("SHOW CREATE TABLE " + queue.Table())[0]
	for _, wanted := range []string{"`TRIES`='7'", "`BACKOFF`='1.5,1.5,60'", "`KEEP`='3600'", "`DEAD`='`all_dead`'", "TRANSACTIONAL=1"} {
		if !strings.Contains(table, wanted) {
			t.Fatal(wanted, table)
		}
	}
	endless := made[int](s, "endless", remoraqueue.Options{Tries: -1})
	s.equal(len(endless.DDL()), 1)
	table = s.rows("SHOW CREATE TABLE " + endless.Table())[0]
	s.equal(strings.Contains(table, "TRIES"), false)
	for _, wrong := range []remoraqueue.Options{{Keep: time.Millisecond}, {DedupeFor: -time.Second}} {
		if _, err := remoraqueue.New[int]("x", wrong); !errors.Is(err, remoraqueue.ErrUsage) {
			t.Fatal(err)
		}
	}
}
